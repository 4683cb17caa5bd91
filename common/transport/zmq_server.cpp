// The coordinator's side. A ROUTER gives each connection a route of its own choosing, so a client
// that reconnects is a new route, and no client can take over another's: who speaks is told by the
// key, which ZeroMQ attaches to every message after ZAP, its authentication protocol, let the
// connection in.
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "common/runtime/log.h"
#include "common/runtime/system_clock.h"
#include "common/transport/zmq_socket.h"

namespace heddle {

using namespace zmq_detail;

namespace {

// Strangers can make as many refusals as they like; the log gets a few a minute and a count of the
// rest.
class RefusalLog {
 public:
  // False if it is one too many.
  bool note(const std::string& line) {
    const Time now = SystemClock().now();
    if (now - window_ >= std::chrono::minutes(1)) {
      if (count_ > kLines)
        log_warning("{} more connections were refused in the last minute", count_ - kLines);
      window_ = now;
      count_ = 0;
    }
    if (++count_ > kLines)
      return false;
    log_warning("{}", line);
    return true;
  }

 private:
  static constexpr int kLines = 20;
  Time window_;
  int count_{};
};

}  // namespace

class ZmqServerChannel::Impl {
 public:
  Impl(EventLoop& loop, ServerOptions options) : loop_(loop), options_(std::move(options)) {}

  Result<void> start();
  Result<void> send(const Peer& peer, Payload payload);

  Handler handler_;
  std::function<void(const Refused&)> refused_;
  std::function<void(const AuthorisedKeys&)> keys_read_;
  std::string endpoint_;
  AuthorisedKeys authorised_;

 private:
  Result<void> start_authentication();
  Result<void> bind();
  Result<void> watch();
  Result<void> watch_folders();
  void refuse(const Refused& refused, const std::string& line);
  void load_authorised(AuthorisedKeys keys);
  void reload_authorised();
  void reload_in(Duration delay);
  void receive();
  void authenticate();
  void observe();

  bool plain() const { return !options_.keys.has_value(); }

  EventLoop& loop_;
  ServerOptions options_;
  RefusalLog refusals_;
  // Destroyed from the end: sources, then sockets, then the context, which waits for its sockets.
  Context context_;
  Socket router_, monitor_, zap_;
  EventSource router_source_, monitor_source_, zap_source_, reload_timer_;
  std::vector<EventSource> folder_sources_;
};

Result<void> ZmqServerChannel::Impl::start() {
  if (auto ok = check_endpoint(options_.endpoint, plain(), options_.allow_plain); !ok)
    return ok;
  auto context = make_context();
  if (!context)
    return tl::unexpected(context.error());
  context_ = std::move(*context);
  if (!plain()) {
    if (auto ok = start_authentication(); !ok)
      return ok;
  }
  if (auto ok = bind(); !ok)
    return ok;
  return watch();
}

Result<void> ZmqServerChannel::Impl::start_authentication() {
  if (!is_key(options_.keys->secret_key))
    return fail(Errc::invalid_argument, "the server's secret key is not a key");
  auto keys = load_authorised_keys(options_.authorised_keys);
  if (!keys)
    return tl::unexpected(keys.error());
  load_authorised(std::move(*keys));
  auto zap = make_socket(context_.get(), ZMQ_REP);
  if (!zap)
    return tl::unexpected(zap.error());
  zap_ = std::move(*zap);
  if (zmq_bind(zap_.get(), "inproc://zeromq.zap.01") != 0) {
    return fail(Errc::io, fmt::format("cannot authenticate peers: {}", zmq_error()));
  }
  return {};
}

Result<void> ZmqServerChannel::Impl::bind() {
  auto router = make_socket(context_.get(), ZMQ_ROUTER);
  if (!router)
    return tl::unexpected(router.error());
  router_ = std::move(*router);
  apply_options(router_.get(), options_.endpoint, plain(), options_.limits);
  set(router_.get(), ZMQ_ROUTER_MANDATORY, 1);
  if (!plain()) {
    set(router_.get(), ZMQ_CURVE_SERVER, 1);
    set(router_.get(), ZMQ_CURVE_SECRETKEY, options_.keys->secret_key);
    // The authentication is bound already; and a connection that somehow went by it has no key, so
    // that receive() drops all it sends.
    set(router_.get(), ZMQ_ZAP_DOMAIN, "heddle");
  }
  auto events = monitor(context_.get(), router_.get(), "server");
  if (!events)
    return tl::unexpected(events.error());
  monitor_ = std::move(*events);
  if (zmq_bind(router_.get(), options_.endpoint.c_str()) != 0) {
    const bool malformed = zmq_errno() == EINVAL || zmq_errno() == EPROTONOSUPPORT;
    return fail(malformed ? Errc::invalid_argument : Errc::io,
                fmt::format("cannot listen on {}: {}", options_.endpoint, zmq_error()));
  }
  endpoint_ = last_endpoint(router_.get());
  return {};
}

Result<void> ZmqServerChannel::Impl::watch() {
  const auto watch_socket = [this](void* socket, void (Impl::*handler)()) {
    return loop_.on_edge(
        descriptor(socket), [socket] { return readable(socket); },
        [this, handler] { (this->*handler)(); });
  };
  auto router = watch_socket(router_.get(), &Impl::receive);
  if (!router)
    return tl::unexpected(router.error());
  router_source_ = std::move(*router);
  auto events = watch_socket(monitor_.get(), &Impl::observe);
  if (!events)
    return tl::unexpected(events.error());
  monitor_source_ = std::move(*events);
  if (plain())
    return {};

  auto zap = watch_socket(zap_.get(), &Impl::authenticate);
  if (!zap)
    return tl::unexpected(zap.error());
  zap_source_ = std::move(*zap);
  return watch_folders();
}

Result<void> ZmqServerChannel::Impl::watch_folders() {
  // Many files change at once when keys are copied in, so they are read once, a moment later.
  const auto changed = [this](std::string_view) {
    if (!reload_timer_)
      reload_in(std::chrono::milliseconds(200));
  };
  std::vector<EventSource> sources;
  for (const KeyRole role :
       {KeyRole::unstated, KeyRole::agent_key, KeyRole::viewer_key, KeyRole::operator_key}) {
    auto source = loop_.on_change(role_folder(options_.authorised_keys, role), changed);
    if (source)
      sources.push_back(std::move(*source));
    // A role's folder may be made later, which the folder around it tells.
    else if (role == KeyRole::unstated)
      return tl::unexpected(source.error());
  }
  folder_sources_ = std::move(sources);
  return {};
}

void ZmqServerChannel::Impl::reload_in(Duration delay) {
  reload_timer_ = loop_.at(SystemClock().now() + delay, [this] {
    reload_timer_ = {};
    reload_authorised();
  });
}

void ZmqServerChannel::Impl::refuse(const Refused& refused, const std::string& line) {
  if (refusals_.note(line) && refused_)
    refused_(refused);
}

void ZmqServerChannel::Impl::load_authorised(AuthorisedKeys keys) {
  for (const std::string& problem : keys.problems)
    log_warning("authorised key passed over: {}", problem);
  authorised_ = std::move(keys);
}

void ZmqServerChannel::Impl::reload_authorised() {
  // Watched before they are read: what changes in between is told, and read once more.
  if (const auto watched = watch_folders(); !watched) {
    // The folder that comes instead is watched by nobody yet, and must not be missed.
    log_warning("authorised keys are looked for again: {}", watched.error().message);
    reload_in(std::chrono::seconds(1));
  }
  auto keys = load_authorised_keys(options_.authorised_keys);
  if (!keys) {
    // A folder that is being replaced must not cut every agent off.
    log_error("authorised keys stay as they were: {}", keys.error().message);
    return;
  }
  load_authorised(std::move(*keys));
  if (keys_read_)
    keys_read_(authorised_);
  log_info("authorised keys read again: {}", authorised_.owners.size());
}

// One message a turn, so that timers and other sources get theirs.
void ZmqServerChannel::Impl::receive() {
  Frame route, payload;
  if (!route.receive(router_.get()))
    return;
  if (!route.more() || !payload.receive(router_.get()) || payload.more()) {
    drop_rest(router_.get(), payload);
    return;
  }
  Peer peer{.route = std::string(route.text()), .key = {}, .name = {}, .role = {}};
  if (!plain()) {
    peer.key = payload.property("User-Id");
    const auto it = authorised_.owners.find(peer.key);
    if (it == authorised_.owners.end()) {
      refuse({.address = {}, .key = peer.key, .reason = "the key is no longer authorised"},
             fmt::format("dropped a message under key {}: no longer in {}", peer.key,
                         options_.authorised_keys.string()));
      return;
    }
    peer.name = it->second.name;
    peer.role = it->second.role;
  }
  if (handler_)
    handler_(peer, payload.bytes());
}

// Frames of a request: version, request, domain, address, identity, mechanism, key (32 octets). The
// user that the answer names becomes a property of each of the connection's messages: the key, so
// that what it may do can change.
void ZmqServerChannel::Impl::authenticate() {
  std::array<Frame, 7> request;
  std::size_t n = 0;
  for (; n < request.size(); ++n) {
    if (!request[n].receive(zap_.get()))
      return;
    if (!request[n].more())
      break;
  }
  std::string key;
  if (n == request.size() - 1 && request[5].text() == "CURVE" && request[6].bytes().size() == 32) {
    std::array<char, 41> text{};
    zmq_z85_encode(text.data(), reinterpret_cast<const std::uint8_t*>(request[6].bytes().data()),
                   32);
    key = text.data();
  }
  drop_rest(zap_.get(), request[std::min(n, request.size() - 1)]);
  const bool known = authorised_.owners.contains(key);
  if (!known) {
    refuse({.address = std::string(request[3].text()),
            .key = key,
            .reason = "the key is not authorised"},
           fmt::format("refused a connection from {}: its key {} is not in {}", request[3].text(),
                       key, options_.authorised_keys.string()));
  }
  const std::string_view user = known ? std::string_view(key) : std::string_view();
  const std::array<std::string_view, 6> reply{
      "1.0", request[1].text(), known ? "200" : "400", known ? "" : "key not authorised", user, ""};
  for (std::size_t i = 0; i < reply.size(); ++i) {
    zmq_send(zap_.get(), reply[i].data(), reply[i].size(),
             ZMQ_DONTWAIT | (i + 1 < reply.size() ? ZMQ_SNDMORE : 0));
  }
}

void ZmqServerChannel::Impl::observe() {
  const auto event = next_event(monitor_.get());
  if (!event)
    return;
  switch (event->event) {
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      refusals_.note(fmt::format("a connection to {} failed its handshake: {}", endpoint_,
                                 handshake_failure(*event)));
      break;
    case ZMQ_EVENT_ACCEPT_FAILED:
      refusals_.note(fmt::format("{} cannot accept a connection: {}", endpoint_,
                                 zmq_strerror(static_cast<int>(event->value))));
      break;
    default:
      break;
  }
}

Result<void> ZmqServerChannel::Impl::send(const Peer& peer, Payload payload) {
  if (payload.size() > options_.limits.max_message_bytes) {
    return fail(Errc::invalid_argument,
                fmt::format("a message of {} octets is too long", payload.size()));
  }
  if (!plain() && !authorised_.owners.contains(peer.key)) {
    return fail(Errc::permission, fmt::format("the key of {} is no longer authorised", peer.name));
  }
  if (zmq_send(router_.get(), peer.route.data(), peer.route.size(), ZMQ_SNDMORE | ZMQ_DONTWAIT) <
      0) {
    if (zmq_errno() == EAGAIN)
      return fail(Errc::timeout, fmt::format("the queue to {} is full", peer.name));
    if (zmq_errno() == EHOSTUNREACH)
      return fail(Errc::not_found, fmt::format("{} is gone", peer.name));
    return fail(Errc::io, zmq_error());
  }
  if (zmq_send(router_.get(), payload.data(), payload.size(), ZMQ_DONTWAIT) < 0)
    return fail(Errc::io, zmq_error());
  return {};
}

ZmqServerChannel::ZmqServerChannel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ZmqServerChannel::~ZmqServerChannel() = default;

Result<std::unique_ptr<ZmqServerChannel>> ZmqServerChannel::listen(EventLoop& loop,
                                                                   ServerOptions options) {
  auto impl = std::make_unique<Impl>(loop, std::move(options));
  if (auto ok = impl->start(); !ok)
    return tl::unexpected(ok.error());
  return std::unique_ptr<ZmqServerChannel>(new ZmqServerChannel(std::move(impl)));
}

void ZmqServerChannel::on_message(Handler handler) {
  impl_->handler_ = std::move(handler);
}

Result<void> ZmqServerChannel::send(const Peer& peer, Payload payload) {
  return impl_->send(peer, payload);
}

void ZmqServerChannel::on_refusal(std::function<void(const Refused&)> handler) {
  impl_->refused_ = std::move(handler);
}

void ZmqServerChannel::on_keys(std::function<void(const AuthorisedKeys&)> handler) {
  impl_->keys_read_ = std::move(handler);
  impl_->keys_read_(impl_->authorised_);
}

const std::string& ZmqServerChannel::endpoint() const {
  return impl_->endpoint_;
}

}  // namespace heddle
