// The message channel over ZeroMQ: the coordinator's ROUTER and the agents' and command lines'
// DEALER, with CURVE. Each channel owns its ZeroMQ context with one I/O thread; everything here,
// callbacks included, runs on the event loop's thread, and a channel must not outlive its loop.
// Handlers may send, but not destroy the channel that calls them.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/core/units.h"
#include "common/runtime/event_loop.h"
#include "common/transport/channel.h"
#include "common/transport/keys.h"

namespace heddle {

// What bounds memory and waiting; the defaults are what the daemons use.
struct ChannelLimits {
  std::size_t max_message_bytes{std::size_t{16} << 20};
  int queued_messages{256};                      // per peer and direction
  Duration heartbeat{std::chrono::seconds{5}};   // a silent peer is lost after three of these
  Duration handshake{std::chrono::seconds{10}};  // connection and handshake together
  Duration retry_first{
      std::chrono::milliseconds{100}};  // between a client's attempts: doubles, with jitter
  Duration retry_last{std::chrono::seconds{5}};
};

struct ServerOptions {
  std::string endpoint;           // "tcp://10.255.0.1:7117", "tcp://*:7117"; port * is any free one
  std::optional<KeyPair> keys{};  // none: plain, see allow_plain
  // The folder of authorised keys (keys.h), read again when it changes. From a key that is taken
  // out nothing is heard any more, within a second, and nothing is sent to it. Needed with keys.
  std::filesystem::path authorised_keys{};
  bool allow_plain{};  // plain on other than loopback and ipc: only for who asks for it by
                       // name
  ChannelLimits limits{};
};

class ZmqServerChannel final : public ServerChannel {
 public:
  // Errc::io if the port is in use or the address is not ours (the text names the endpoint);
  // Errc::invalid_argument for a malformed endpoint or a plain transport where none may be.
  static Result<std::unique_ptr<ZmqServerChannel>> listen(EventLoop& loop, ServerOptions options);
  ~ZmqServerChannel() override;

  void on_message(Handler handler) override;
  Result<void> send(const Peer& peer, Payload payload) override;

  // Called for connections under an unknown key and for what comes under a key that was taken out;
  // both are in the log already. Strangers can make as many as they like: it is called at most 20
  // times a minute.
  struct Refused {
    std::string address;  // empty: it was connected already
    std::string key;      // Z85; empty: none was shown
    std::string reason;
  };
  void on_refusal(std::function<void(const Refused&)> handler);
  // Called at once, and whenever the folder of authorised keys was read again.
  void on_keys(std::function<void(const AuthorisedKeys&)> handler);

  // Where it listens, with the port that was chosen.
  const std::string& endpoint() const;

 private:
  class Impl;
  explicit ZmqServerChannel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct ClientOptions {
  std::string endpoint;                     // "tcp://10.255.0.1:7117"
  std::optional<KeyPair> keys{};            // none: plain
  std::optional<std::string> server_key{};  // Z85; needed with keys
  bool allow_plain{};
  ChannelLimits limits{};
};

// Tries again for ever, with growing pauses, whatever the reason was: a key may be authorised
// later.
class ZmqClientChannel final : public ClientChannel {
 public:
  // Returns before anything is connected. Errc::invalid_argument for what can never connect.
  static Result<std::unique_ptr<ZmqClientChannel>> connect(EventLoop& loop, ClientOptions options);
  ~ZmqClientChannel() override;

  void on_message(Handler handler) override;
  // Called with true after each handshake, with false when a connection is lost, when the first
  // attempt fails, and when a later attempt fails for a new reason.
  void on_connection(
      std::function<void(bool connected, const std::string& reason)> handler) override;
  // Errc::io while not connected (nothing is kept for later), Errc::timeout if the queue is full.
  Result<void> send(Payload payload) override;

 private:
  class Impl;
  explicit ZmqClientChannel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
