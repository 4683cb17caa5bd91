#include "coordinator/channel_port.h"

#include <algorithm>
#include <vector>

#include "common/wire/codec.h"

namespace heddle {

namespace {

// More than any cluster's agents twice over, as each may be reconnecting.
constexpr std::size_t kMostPeers = 65536;

}  // namespace

Sender ChannelPort::know(const Peer& peer, const std::string& node) {
  peers_[peer.route] = {.peer = peer, .heard = ++heard_};
  if (peers_.size() > kMostPeers) {
    std::vector<std::uint64_t> ages;
    for (const auto& [route, known] : peers_)
      ages.push_back(known.heard);
    const auto middle = ages.begin() + static_cast<std::ptrdiff_t>(ages.size() / 2);
    std::ranges::nth_element(ages, middle);
    std::erase_if(peers_,
                  [limit = *middle](const auto& entry) { return entry.second.heard < limit; });
  }
  return {.route = peer.route, .node = node, .key_name = peer.name, .role = peer.role};
}

Result<void> ChannelPort::send(const std::string& route, const Message& message) {
  const auto peer = peers_.find(route);
  if (peer == peers_.end())
    return fail(Errc::not_found, "nobody is at this route");
  const std::vector<std::byte> bytes =
      encode({.node = "coordinator", .sequence = ++sequence_, .message = message});
  const Result<void> sent = channel_.send(peer->second.peer, bytes);
  // Command lines come and go; who is gone is forgotten here.
  if (!sent && sent.error().code == Errc::not_found)
    peers_.erase(peer);
  else if (std::holds_alternative<Reply>(message))
    peers_.erase(peer);
  return sent;
}

}  // namespace heddle
