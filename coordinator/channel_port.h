// The message port over a server channel: values out, bytes in. It remembers which peer stands
// behind a route.
//
// Thread: the event loop's. Lifetime: within the channel's.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/transport/channel.h"
#include "coordinator/broadcast/broadcast.h"

namespace heddle {

class ChannelPort final : public MessagePort {
 public:
  explicit ChannelPort(ServerChannel& channel) : channel_(channel) {}

  // To be called with every message, before the coordinator sees it.
  Sender know(const Peer& peer, const std::string& node);
  Result<void> send(const std::string& route, const Message& message) override;

 private:
  ServerChannel& channel_;
  // A route is new with each connection, so old ones pile up: those that were quiet longest are
  // forgotten.
  struct Known {
    Peer peer;
    std::uint64_t heard{};
  };
  std::map<std::string, Known> peers_;
  std::uint64_t heard_{};
  std::uint64_t sequence_{};
};

}  // namespace heddle
