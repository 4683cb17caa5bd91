// Question and answer over a message channel, which itself promises neither order nor arrival:
// waits for the connection, sends once, and takes the reply that carries the question's number. One
// thread, which turns the event loop while it waits; loop and channel outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/core/clock.h"
#include "common/runtime/event_loop.h"
#include "common/transport/channel.h"
#include "coordinator/cli/coordinator_line.h"

namespace heddle {

class ChannelLine final : public CoordinatorLine {
 public:
  // `where` names the coordinator in errors.
  ChannelLine(EventLoop& loop, const Clock& clock, ClientChannel& channel, std::string where);

  Result<Reply> ask(const std::string& command, const std::vector<std::string>& arguments,
                    Duration timeout) override;

 private:
  void receive(Payload payload);
  // Turns the loop until it is done, the connection has failed, or the time has come.
  Result<void> wait(Time deadline, const std::function<bool()>& done);

  EventLoop& loop_;
  const Clock& clock_;
  ClientChannel& channel_;
  const std::string where_;
  bool connected_{};
  std::optional<std::string> lost_;  // why a connection failed since the last question, if one did
  std::uint64_t last_id_{};
  std::optional<Reply> reply_;
  std::string garbled_;  // why the last message could not be read; empty if it could
};

}  // namespace heddle
