// Owners and small helpers over ZeroMQ's C interface, for this folder's .cpp files. The C
// interface, because it throws nothing and its header is cheap.
#pragma once

#include <fmt/format.h>
#include <zmq.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/core/check.h"
#include "common/core/result.h"
#include "common/core/units.h"
#include "common/transport/channel.h"
#include "common/transport/zmq_channel.h"

namespace heddle::zmq_detail {

struct EndContext {
  void operator()(void* context) const { zmq_ctx_term(context); }
};
struct CloseSocket {
  void operator()(void* socket) const { zmq_close(socket); }
};
using Context = std::unique_ptr<void, EndContext>;
using Socket = std::unique_ptr<void, CloseSocket>;

// One part of a message.
class Frame {
 public:
  Frame() { zmq_msg_init(&message_); }
  ~Frame() { zmq_msg_close(&message_); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  // False if there is none now.
  bool receive(void* socket) { return zmq_msg_recv(&message_, socket, ZMQ_DONTWAIT) >= 0; }
  bool more() const { return zmq_msg_more(&message_) != 0; }
  Payload bytes() {
    return {static_cast<const std::byte*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }
  std::string_view text() {
    return {static_cast<const char*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }
  // What the handshake established about the sender; empty if nothing.
  std::string_view property(const char* name) const {
    const char* value = zmq_msg_gets(&message_, name);
    return value == nullptr ? std::string_view() : std::string_view(value);
  }

 private:
  // ZeroMQ's accessors take it without const though they only read.
  mutable zmq_msg_t message_{};
};

// Reads and drops the rest of a message whose last received part is `frame`.
void drop_rest(void* socket, Frame& frame);

// These can only fail for an option or a value that is wrong in the program.
void set(void* socket, int option, int value);
void set(void* socket, int option, std::string_view value);

bool readable(void* socket);
int descriptor(void* socket);
std::string last_endpoint(void* socket);

Result<Context> make_context();
Result<Socket> make_socket(void* context, int type);

// Sizes, queues, heartbeats, keepalive, the address family: what both sides share.
void apply_options(void* socket, std::string_view endpoint, bool plain,
                   const ChannelLimits& limits);

// Where an endpoint may be used without CURVE: ipc, or TCP on this machine. Errc::invalid_argument
// if it is neither tcp:// nor ipc://, or if it is plain and must not be.
Result<void> check_endpoint(std::string_view endpoint, bool plain, bool allow_plain);

// What ZeroMQ tells about a socket's connections.
struct MonitorEvent {
  std::uint16_t event{};
  std::uint32_t value{};
};
// Watches `socket` for connections made, refused and lost.
Result<Socket> monitor(void* context, void* socket, const std::string& name);
std::optional<MonitorEvent> next_event(void* monitor);

// Why a handshake failed, from a monitor's event.
std::string handshake_failure(const MonitorEvent& event);

inline std::string zmq_error() {
  return zmq_strerror(zmq_errno());
}

}  // namespace heddle::zmq_detail
