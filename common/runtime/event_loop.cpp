#include "common/runtime/event_loop.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <systemd/sd-event.h>

#include <csignal>
#include <limits>
#include <system_error>
#include <utility>

#include "common/core/check.h"
#include "common/runtime/system_clock.h"

namespace heddle {

namespace {

struct EndSource {
  void operator()(sd_event_source* source) const { sd_event_source_disable_unref(source); }
};
using SourcePtr = std::unique_ptr<sd_event_source, EndSource>;

Error system_error(const char* what, int negative_errno) {
  return {Errc::io, fmt::format("{}: {}", what, std::generic_category().message(-negative_errno))};
}

// sd-event counts microseconds; rounding up keeps a timer from firing before its time.
std::uint64_t microseconds_up(Duration d) {
  const std::int64_t ns = d.count();
  return ns <= 0 ? 0 : static_cast<std::uint64_t>(ns / 1000 + (ns % 1000 != 0 ? 1 : 0));
}

// Without this sd-event may fire up to 250 ms late, to save wake-ups.
constexpr std::uint64_t kAccuracyMicroseconds = 1;

}  // namespace

// sd-event holds a raw pointer to it. Every callback first takes a share of it, because the handler
// may destroy the EventSource that owns it.
struct EventSource::State : std::enable_shared_from_this<EventSource::State> {
  SourcePtr source;
  SourcePtr turn;  // on_edge's, while its handler is due
  virtual ~State() = default;

  void end() {
    source.reset();
    turn.reset();
  }
};

EventSource::EventSource() = default;
EventSource::EventSource(std::shared_ptr<State> state) : state_(std::move(state)) {}
EventSource::EventSource(EventSource&& other) noexcept = default;
EventSource& EventSource::operator=(EventSource&& other) noexcept {
  if (this == &other)
    return *this;
  const std::shared_ptr<State> old = std::exchange(state_, std::move(other.state_));
  if (old)
    old->end();
  return *this;
}
EventSource::~EventSource() {
  if (state_)
    state_->end();
}

namespace {

using State = EventSource::State;

struct IoState final : State {
  std::function<void(std::uint32_t)> handler;
};
struct EdgeState final : State {
  std::function<bool()> ready;
  EventLoop::Handler handler;
};
struct CallState final : State {
  EventLoop::Handler handler;
  std::uint64_t period_us{};
};
struct ChangeState final : State {
  std::function<void(std::string_view)> handler;
};

// The state behind a callback's pointer, kept alive for the length of the call.
template <class S>
std::shared_ptr<S> hold(void* userdata) {
  return std::static_pointer_cast<S>(static_cast<State*>(userdata)->shared_from_this());
}

void* userdata_of(const std::shared_ptr<State>& state) {
  return state.get();
}

int io_event(sd_event_source*, int, std::uint32_t events, void* userdata) noexcept {
  hold<IoState>(userdata)->handler(events);
  return 0;
}

// The descriptor only wakes the loop; what is to be done shows in the next turn's prepare.
int edge_event(sd_event_source*, int, std::uint32_t, void*) noexcept {
  return 0;
}

int edge_turn(sd_event_source*, void* userdata) noexcept {
  const auto state = hold<EdgeState>(userdata);
  state->turn.reset();
  state->handler();
  return 0;
}

// Each turn is a new source: one that is switched on again keeps its old place in sd-event's queue,
// ahead of all others, and would starve them.
int edge_prepare(sd_event_source* source, void* userdata) noexcept {
  const auto state = hold<EdgeState>(userdata);
  if (state->turn || !state->ready())
    return 0;
  sd_event_source* turn = nullptr;
  HEDDLE_CHECK(sd_event_add_defer(sd_event_source_get_event(source), &turn, edge_turn, userdata) >=
               0);
  state->turn.reset(turn);
  return 0;
}

int call_event(sd_event_source*, void* userdata) noexcept {
  hold<CallState>(userdata)->handler();
  return 0;
}

int once_event(sd_event_source*, std::uint64_t, void* userdata) noexcept {
  hold<CallState>(userdata)->handler();
  return 0;
}

int period_event(sd_event_source* source, std::uint64_t due_us, void* userdata) noexcept {
  const auto state = hold<CallState>(userdata);
  state->handler();
  if (!state->source)
    return 0;  // ended by its own handler
  // sd_event_now() would tell when this turn began, but the handler may have taken long.
  const std::uint64_t now_us = microseconds_up(SystemClock().now().time_since_epoch());
  const std::uint64_t passed = now_us > due_us ? (now_us - due_us) / state->period_us : 0;
  sd_event_source_set_time(source, due_us + (passed + 1) * state->period_us);
  sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
  return 0;
}

int signal_event(sd_event_source*, const signalfd_siginfo*, void* userdata) noexcept {
  hold<CallState>(userdata)->handler();
  return 0;
}

int change_event(sd_event_source*, const inotify_event* event, void* userdata) noexcept {
  const auto state = hold<ChangeState>(userdata);
  state->handler(event->len > 0 ? std::string_view(event->name) : std::string_view());
  return 0;
}

}  // namespace

EventLoop::EventLoop(sd_event* event) : event_(event) {}

EventLoop::~EventLoop() {
  sd_event_unref(event_);
}

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  sd_event* event = nullptr;
  if (const int r = sd_event_new(&event); r < 0) {
    return tl::unexpected(system_error("cannot make an event loop", r));
  }
  std::unique_ptr<EventLoop> loop(new EventLoop(event));
  // The first timer makes the clock's descriptor, which the loop keeps: if descriptors are short,
  // that shows here and not when a timer is needed.
  sd_event_source* first = nullptr;
  const int r = sd_event_add_time(event, &first, CLOCK_BOOTTIME, 0, kAccuracyMicroseconds,
                                  once_event, nullptr);
  if (r < 0)
    return tl::unexpected(system_error("cannot make a timer", r));
  sd_event_source_disable_unref(first);
  return loop;
}

Result<EventSource> EventLoop::on_readable(int fd, Handler handler) {
  return on_io(fd, EPOLLIN, [handler = std::move(handler)](std::uint32_t) { handler(); });
}

Result<EventSource> EventLoop::on_io(int fd, std::uint32_t events,
                                     std::function<void(std::uint32_t)> handler) {
  auto state = std::make_shared<IoState>();
  state->handler = std::move(handler);
  sd_event_source* source = nullptr;
  const int r = sd_event_add_io(event_, &source, fd, events, io_event, userdata_of(state));
  if (r < 0)
    return tl::unexpected(system_error("cannot watch a descriptor", r));
  state->source.reset(source);
  return EventSource(std::move(state));
}

Result<EventSource> EventLoop::on_edge(int fd, std::function<bool()> ready, Handler handler) {
  auto state = std::make_shared<EdgeState>();
  state->ready = std::move(ready);
  state->handler = std::move(handler);
  sd_event_source* source = nullptr;
  int r = sd_event_add_io(event_, &source, fd, EPOLLIN, edge_event, userdata_of(state));
  if (r < 0)
    return tl::unexpected(system_error("cannot watch a descriptor", r));
  state->source.reset(source);
  r = sd_event_source_set_prepare(source, edge_prepare);
  if (r < 0)
    return tl::unexpected(system_error("cannot watch a descriptor", r));
  return EventSource(std::move(state));
}

// Timers and deferred calls need memory only (see create()), so a failure is not an operating
// error.
EventSource EventLoop::at(Time when, Handler handler) {
  auto state = std::make_shared<CallState>();
  state->handler = std::move(handler);
  sd_event_source* source = nullptr;
  const int r =
      sd_event_add_time(event_, &source, CLOCK_BOOTTIME, microseconds_up(when.time_since_epoch()),
                        kAccuracyMicroseconds, once_event, userdata_of(state));
  HEDDLE_CHECK(r >= 0);
  state->source.reset(source);
  return EventSource(std::move(state));
}

EventSource EventLoop::every(Duration period, Handler handler) {
  HEDDLE_CHECK(period.count() > 0);
  auto state = std::make_shared<CallState>();
  state->handler = std::move(handler);
  state->period_us = microseconds_up(period);
  sd_event_source* source = nullptr;
  const int r = sd_event_add_time_relative(event_, &source, CLOCK_BOOTTIME, state->period_us,
                                           kAccuracyMicroseconds, period_event, userdata_of(state));
  HEDDLE_CHECK(r >= 0);
  state->source.reset(source);
  return EventSource(std::move(state));
}

EventSource EventLoop::soon(Handler handler) {
  auto state = std::make_shared<CallState>();
  state->handler = std::move(handler);
  sd_event_source* source = nullptr;
  const int r = sd_event_add_defer(event_, &source, call_event, userdata_of(state));
  HEDDLE_CHECK(r >= 0);
  state->source.reset(source);
  return EventSource(std::move(state));
}

Result<EventSource> EventLoop::on_signal(int signal, Handler handler) {
  sigset_t mask;
  sigemptyset(&mask);
  if (sigaddset(&mask, signal) != 0)
    return fail(Errc::invalid_argument, fmt::format("no such signal: {}", signal));
  if (const int error = pthread_sigmask(SIG_BLOCK, &mask, nullptr); error != 0) {
    return tl::unexpected(system_error("cannot block a signal", -error));
  }
  auto state = std::make_shared<CallState>();
  state->handler = std::move(handler);
  sd_event_source* source = nullptr;
  const int r = sd_event_add_signal(event_, &source, signal, signal_event, userdata_of(state));
  if (r < 0)
    return tl::unexpected(system_error("cannot watch a signal", r));
  state->source.reset(source);
  return EventSource(std::move(state));
}

Result<EventSource> EventLoop::on_change(const std::filesystem::path& path,
                                         std::function<void(std::string_view name)> handler) {
  constexpr std::uint32_t kMask = IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM |
                                  IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;
  auto state = std::make_shared<ChangeState>();
  state->handler = std::move(handler);
  sd_event_source* source = nullptr;
  const int r =
      sd_event_add_inotify(event_, &source, path.c_str(), kMask, change_event, userdata_of(state));
  if (r < 0) {
    return tl::unexpected(system_error(fmt::format("cannot watch {}", path.string()).c_str(), r));
  }
  state->source.reset(source);
  return EventSource(std::move(state));
}

Result<bool> EventLoop::enable_watchdog() {
  const int r = sd_event_set_watchdog(event_, 1);
  if (r < 0)
    return tl::unexpected(system_error("cannot answer the watchdog", r));
  return r > 0;
}

Result<void> EventLoop::run() {
  while (!stopped_) {
    const int r = sd_event_run(event_, std::numeric_limits<std::uint64_t>::max());
    if (r < 0)
      return tl::unexpected(system_error("the event loop failed", r));
  }
  stopped_ = false;
  return {};
}

Result<void> EventLoop::run_once(Duration max_wait) {
  const int r = sd_event_run(event_, microseconds_up(max_wait));
  if (r < 0)
    return tl::unexpected(system_error("the event loop failed", r));
  return {};
}

void EventLoop::stop() {
  stopped_ = true;
}

}  // namespace heddle
