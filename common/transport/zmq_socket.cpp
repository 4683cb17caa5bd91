#include "common/transport/zmq_socket.h"

#include <cerrno>
#include <cstring>

#include "common/core/address.h"

namespace heddle::zmq_detail {

void drop_rest(void* socket, Frame& frame) {
  while (frame.more() && frame.receive(socket)) {
  }
}

void set(void* socket, int option, int value) {
  HEDDLE_CHECK(zmq_setsockopt(socket, option, &value, sizeof value) == 0);
}

void set(void* socket, int option, std::string_view value) {
  HEDDLE_CHECK(zmq_setsockopt(socket, option, value.data(), value.size()) == 0);
}

bool readable(void* socket) {
  int events = 0;
  std::size_t size = sizeof events;
  return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN) != 0;
}

int descriptor(void* socket) {
  int fd = -1;
  std::size_t size = sizeof fd;
  HEDDLE_CHECK(zmq_getsockopt(socket, ZMQ_FD, &fd, &size) == 0);
  return fd;
}

std::string last_endpoint(void* socket) {
  char text[256] = {};
  std::size_t size = sizeof text;
  HEDDLE_CHECK(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, text, &size) == 0);
  return text;
}

Result<Context> make_context() {
  Context context(zmq_ctx_new());
  if (!context)
    return fail(Errc::io, fmt::format("cannot start ZeroMQ: {}", zmq_error()));
  zmq_ctx_set(context.get(), ZMQ_IO_THREADS, 1);
  // Whatever is still queued when a channel ends is lost, as the port says it may be.
  zmq_ctx_set(context.get(), ZMQ_BLOCKY, 0);
  return context;
}

Result<Socket> make_socket(void* context, int type) {
  Socket socket(zmq_socket(context, type));
  if (!socket)
    return fail(Errc::io, fmt::format("cannot make a ZeroMQ socket: {}", zmq_error()));
  return socket;
}

namespace {

// The host of "tcp://HOST:PORT", without the brackets of an IPv6 address; empty for anything else.
std::string_view host_of(std::string_view endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  const std::size_t colon = endpoint.rfind(':');
  if (!endpoint.starts_with(kTcp) || colon == std::string_view::npos || colon < kTcp.size())
    return {};
  const std::string_view host = endpoint.substr(kTcp.size(), colon - kTcp.size());
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

bool is_v4(std::string_view host) {
  const auto address = IpAddress::parse(host);
  return address && address->family == Family::v4;
}

// What CURVE adds to a message: command name, nonce, flags and the authenticator.
constexpr std::size_t kCurveOverhead = 64;

}  // namespace

void apply_options(void* socket, std::string_view endpoint, bool plain,
                   const ChannelLimits& limits) {
  const auto ms = [](Duration d) {
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(d).count());
  };
  const auto max_bytes =
      static_cast<std::int64_t>(limits.max_message_bytes + (plain ? 0 : kCurveOverhead));
  HEDDLE_CHECK(zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes) == 0);
  set(socket, ZMQ_SNDHWM, limits.queued_messages);
  set(socket, ZMQ_RCVHWM, limits.queued_messages);
  set(socket, ZMQ_HANDSHAKE_IVL, ms(limits.handshake));
  set(socket, ZMQ_HEARTBEAT_IVL, ms(limits.heartbeat));
  set(socket, ZMQ_HEARTBEAT_TIMEOUT, ms(2 * limits.heartbeat));
  set(socket, ZMQ_HEARTBEAT_TTL, ms(3 * limits.heartbeat));
  // Heartbeats begin after the handshake; keepalive covers what comes before it.
  set(socket, ZMQ_TCP_KEEPALIVE, 1);
  // With it an IPv4 address is bound, and reported, in its IPv6 form.
  set(socket, ZMQ_IPV6, is_v4(host_of(endpoint)) ? 0 : 1);
}

Result<void> check_endpoint(std::string_view endpoint, bool plain, bool allow_plain) {
  if (endpoint.starts_with("ipc://"))
    return {};
  const std::string_view host = host_of(endpoint);
  if (host.empty()) {
    return fail(
        Errc::invalid_argument,
        fmt::format("\"{}\" is not an endpoint: tcp://ADDRESS:PORT or ipc://FILE", endpoint));
  }
  if (!plain || allow_plain)
    return {};
  const auto address = IpAddress::parse(host);
  const bool loopback = host == "localhost" ||
                        (address && (*address == IpAddress::parse("::1") ||
                                     (address->family == Family::v4 && address->octets[0] == 127)));
  if (loopback)
    return {};
  return fail(Errc::invalid_argument,
              fmt::format("{}: without keys only loopback and ipc are allowed", endpoint));
}

Result<Socket> monitor(void* context, void* socket, const std::string& name) {
  const std::string endpoint = "inproc://" + name;
  constexpr int kEvents = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_ACCEPT_FAILED | ZMQ_EVENT_CLOSED |
                          ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                          ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                          ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  if (zmq_socket_monitor(socket, endpoint.c_str(), kEvents) != 0) {
    return fail(Errc::io, fmt::format("cannot watch a ZeroMQ socket: {}", zmq_error()));
  }
  auto events = make_socket(context, ZMQ_PAIR);
  if (events && zmq_connect(events->get(), endpoint.c_str()) != 0) {
    return fail(Errc::io, fmt::format("cannot watch a ZeroMQ socket: {}", zmq_error()));
  }
  return events;
}

std::optional<MonitorEvent> next_event(void* monitor) {
  Frame frame;
  if (!frame.receive(monitor))
    return std::nullopt;
  const Payload bytes = frame.bytes();
  MonitorEvent event;
  HEDDLE_CHECK(bytes.size() == sizeof event.event + sizeof event.value);
  std::memcpy(&event.event, bytes.data(), sizeof event.event);
  std::memcpy(&event.value, bytes.data() + sizeof event.event, sizeof event.value);
  drop_rest(monitor, frame);
  return event;
}

std::string handshake_failure(const MonitorEvent& event) {
  switch (event.event) {
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return "refused: the key is not authorised";
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      if (event.value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)
        return "wrong key: it was made for another server key";
      if (event.value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
        return "one side uses CURVE keys, the other none";
      return fmt::format("not the protocol that was expected (ZeroMQ error {:#x})", event.value);
    default:
      return event.value == EPIPE || event.value == ECONNRESET
                 ? std::string("the peer hung up")
                 : std::string(zmq_strerror(static_cast<int>(event.value)));
  }
}

}  // namespace heddle::zmq_detail
