// The agent's and the command line's side. ZeroMQ's own reconnection is off: it gives up for good
// after a refusal, and keeps messages for whoever comes next. Here every attempt is a socket of its
// own, which its monitor, or a deadline, ends.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "common/runtime/system_clock.h"
#include "common/transport/zmq_socket.h"

namespace heddle {

using namespace zmq_detail;

class ZmqClientChannel::Impl {
 public:
  Impl(EventLoop& loop, ClientOptions options)
      : loop_(loop), options_(std::move(options)), random_(std::random_device{}()) {}

  Result<void> start();
  Result<void> send(Payload payload);

  Handler handler_;
  std::function<void(bool, const std::string&)> connection_handler_;

 private:
  Result<void> attempt();
  void observe();
  bool receive_one();
  void connected();
  void lost(const std::string& reason);
  void drop_socket();
  void retry_later();
  void tell(bool connected, const std::string& reason);

  EventLoop& loop_;
  ClientOptions options_;
  std::minstd_rand random_;  // for jitter only
  bool connected_{};
  std::string last_reason_;
  unsigned failures_{};  // since the last handshake
  unsigned attempts_{};
  // Destroyed from the end, as in the server.
  Context context_;
  Socket dealer_, monitor_;
  EventSource dealer_source_, monitor_source_, deadline_, retry_;
};

Result<void> ZmqClientChannel::Impl::start() {
  const bool plain = !options_.keys.has_value();
  if (auto ok = check_endpoint(options_.endpoint, plain, options_.allow_plain); !ok)
    return ok;
  if (!plain) {
    if (!options_.server_key || !is_key(*options_.server_key)) {
      return fail(Errc::invalid_argument,
                  fmt::format("{}: the server's public key is needed", options_.endpoint));
    }
    if (!is_key(options_.keys->public_key) || !is_key(options_.keys->secret_key)) {
      return fail(Errc::invalid_argument, "the client's key is not a key");
    }
  }
  auto context = make_context();
  if (!context)
    return tl::unexpected(context.error());
  context_ = std::move(*context);
  return attempt();
}

Result<void> ZmqClientChannel::Impl::attempt() {
  auto dealer = make_socket(context_.get(), ZMQ_DEALER);
  if (!dealer)
    return tl::unexpected(dealer.error());
  void* const socket = dealer->get();
  apply_options(socket, options_.endpoint, !options_.keys, options_.limits);
  set(socket, ZMQ_RECONNECT_IVL, -1);
  if (options_.keys) {
    set(socket, ZMQ_CURVE_SERVERKEY, *options_.server_key);
    set(socket, ZMQ_CURVE_PUBLICKEY, options_.keys->public_key);
    set(socket, ZMQ_CURVE_SECRETKEY, options_.keys->secret_key);
  }
  auto events = monitor(context_.get(), socket, fmt::format("client-{}", ++attempts_));
  if (!events)
    return tl::unexpected(events.error());
  auto event_source = loop_.on_edge(
      descriptor(events->get()), [m = events->get()] { return readable(m); },
      [this] { observe(); });
  if (!event_source)
    return tl::unexpected(event_source.error());
  auto source = loop_.on_edge(
      descriptor(socket), [socket] { return readable(socket); }, [this] { receive_one(); });
  if (!source)
    return tl::unexpected(source.error());
  if (zmq_connect(socket, options_.endpoint.c_str()) != 0) {
    return fail(Errc::invalid_argument,
                fmt::format("cannot connect to {}: {}", options_.endpoint, zmq_error()));
  }
  dealer_ = std::move(*dealer);
  monitor_ = std::move(*events);
  dealer_source_ = std::move(*source);
  monitor_source_ = std::move(*event_source);
  // ZeroMQ tells of refused connections and failed handshakes, but not of names that cannot be
  // resolved.
  deadline_ = loop_.at(SystemClock().now() + options_.limits.handshake,
                       [this] { lost(fmt::format("{} does not answer", options_.endpoint)); });
  return {};
}

void ZmqClientChannel::Impl::observe() {
  const auto event = next_event(monitor_.get());
  if (!event)
    return;
  switch (event->event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      connected();
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      // A server that cannot read a client's first words, because they are for another key, just
      // hangs up.
      lost(fmt::format(
          "{} ended the handshake: {}; {}", options_.endpoint, handshake_failure(*event),
          options_.keys ? "is its public key the one that is configured?" : "does it want keys?"));
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      lost(fmt::format("{}: {}", options_.endpoint, handshake_failure(*event)));
      break;
    case ZMQ_EVENT_DISCONNECTED:
      lost(fmt::format("{} ended the connection", options_.endpoint));
      break;
    case ZMQ_EVENT_CLOSED:
      lost(fmt::format("cannot connect to {}", options_.endpoint));
      break;
    default:
      break;
  }
}

bool ZmqClientChannel::Impl::receive_one() {
  Frame payload;
  if (!payload.receive(dealer_.get()))
    return false;
  if (payload.more()) {
    drop_rest(dealer_.get(), payload);
  } else if (handler_) {
    handler_(payload.bytes());
  }
  return true;
}

void ZmqClientChannel::Impl::connected() {
  deadline_ = {};
  failures_ = 0;
  connected_ = true;
  last_reason_.clear();
  tell(true, "");
}

void ZmqClientChannel::Impl::lost(const std::string& reason) {
  // The last word before the end, a refusal for example, is still to be heard.
  while (receive_one()) {
  }
  const bool news = connected_ || reason != last_reason_;
  connected_ = false;
  last_reason_ = reason;
  drop_socket();
  retry_later();
  if (news)
    tell(false, reason);
}

void ZmqClientChannel::Impl::drop_socket() {
  deadline_ = {};
  monitor_source_ = {};
  dealer_source_ = {};
  if (dealer_)
    zmq_socket_monitor(dealer_.get(), nullptr, 0);
  monitor_.reset();
  dealer_.reset();
}

void ZmqClientChannel::Impl::retry_later() {
  const unsigned doublings = std::min(failures_++, 20U);
  const Duration pause =
      std::min(options_.limits.retry_last, options_.limits.retry_first * (1 << doublings));
  // Between half of it and all of it, so that ten thousand agents do not come back in the same
  // instant.
  const double part = std::uniform_real_distribution<double>(0.5, 1.0)(random_);
  retry_ =
      loop_.at(SystemClock().now() + std::chrono::duration_cast<Duration>(pause * part), [this] {
        retry_ = {};
        if (auto ok = attempt(); !ok)
          lost(ok.error().message);
      });
}

void ZmqClientChannel::Impl::tell(bool connected, const std::string& reason) {
  if (connection_handler_)
    connection_handler_(connected, reason);
}

Result<void> ZmqClientChannel::Impl::send(Payload payload) {
  if (!connected_)
    return fail(Errc::io, fmt::format("not connected to {}", options_.endpoint));
  if (payload.size() > options_.limits.max_message_bytes) {
    return fail(Errc::invalid_argument,
                fmt::format("a message of {} octets is too long", payload.size()));
  }
  if (zmq_send(dealer_.get(), payload.data(), payload.size(), ZMQ_DONTWAIT) >= 0)
    return {};
  if (zmq_errno() == EAGAIN)
    return fail(Errc::timeout, fmt::format("the queue to {} is full", options_.endpoint));
  return fail(Errc::io, zmq_error());
}

ZmqClientChannel::ZmqClientChannel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ZmqClientChannel::~ZmqClientChannel() = default;

Result<std::unique_ptr<ZmqClientChannel>> ZmqClientChannel::connect(EventLoop& loop,
                                                                    ClientOptions options) {
  auto impl = std::make_unique<Impl>(loop, std::move(options));
  if (auto ok = impl->start(); !ok)
    return tl::unexpected(ok.error());
  return std::unique_ptr<ZmqClientChannel>(new ZmqClientChannel(std::move(impl)));
}

void ZmqClientChannel::on_message(Handler handler) {
  impl_->handler_ = std::move(handler);
}

void ZmqClientChannel::on_connection(
    std::function<void(bool connected, const std::string& reason)> handler) {
  impl_->connection_handler_ = std::move(handler);
}

Result<void> ZmqClientChannel::send(Payload payload) {
  return impl_->send(payload);
}

}  // namespace heddle
