// The message channel port: what the logic knows of the network. ZeroMQ stands behind it
// (zmq_channel.h); tests put a loss-making in-memory channel there. Messages may be lost, repeated
// after a reconnect, or come late; nothing may depend on one arriving. All calls from the event
// loop's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "common/core/access.h"
#include "common/core/result.h"

namespace heddle {

using Payload = std::span<const std::byte>;

struct Peer {
  std::string route;  // opaque: where to send an answer
  std::string key;    // the peer's CURVE public key in Z85; empty on a plain transport
  // Whose key that is, by its file's name among the authorised ones; empty likewise.
  std::string name;
  KeyRole role{KeyRole::unstated};  // what it may do, by its file's folder
  bool operator==(const Peer&) const = default;
};

// The coordinator's side: many peers.
class ServerChannel {
 public:
  using Handler = std::function<void(const Peer&, Payload)>;
  virtual ~ServerChannel() = default;
  virtual void on_message(Handler handler) = 0;
  // Never blocks. Errc::not_found if the peer is gone, Errc::timeout if its queue is full (the
  // message is dropped; the protocol recovers by heartbeat and snapshot).
  virtual Result<void> send(const Peer& peer, Payload payload) = 0;
};

// The agent's and the command line's side: one peer, reconnecting by itself.
class ClientChannel {
 public:
  using Handler = std::function<void(Payload)>;
  virtual ~ClientChannel() = default;
  virtual void on_message(Handler handler) = 0;
  // Connected (after the handshake) or lost, with the reason where one is known ("refused: wrong
  // key").
  virtual void on_connection(
      std::function<void(bool connected, const std::string& reason)> handler) = 0;
  virtual Result<void> send(Payload payload) = 0;
};

}  // namespace heddle
