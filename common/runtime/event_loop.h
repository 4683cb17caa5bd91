// The event loop of every daemon, over sd-event: one thread, on which every handler runs to its
// end. A source lives as long as its EventSource; destroying it, also from its own handler, ends
// it. Sources must not outlive the loop. Handlers must not throw.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "common/core/result.h"
#include "common/core/units.h"

struct sd_event;

namespace heddle {

// Owns one source of events. Empty when default constructed or moved from.
class EventSource {
 public:
  struct State;

  EventSource();
  explicit EventSource(std::shared_ptr<State> state);
  EventSource(EventSource&&) noexcept;
  EventSource& operator=(EventSource&&) noexcept;
  ~EventSource();

  explicit operator bool() const { return state_ != nullptr; }

 private:
  std::shared_ptr<State> state_;
};

class EventLoop {
 public:
  using Handler = std::function<void()>;

  static Result<std::unique_ptr<EventLoop>> create();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Called again and again while the descriptor is readable, or has an error or a hang-up. Not
  // owned.
  Result<EventSource> on_readable(int fd, Handler handler);
  // `events` and what the handler gets are EPOLL* flags.
  Result<EventSource> on_io(int fd, std::uint32_t events,
                            std::function<void(std::uint32_t)> handler);
  // For descriptors that tell only of changes (ZeroMQ's): before each wait `ready` is asked, and as
  // long as it says yes the handler is called, other sources taking their turns.
  Result<EventSource> on_edge(int fd, std::function<bool()> ready, Handler handler);

  // Once, at or after a time by CLOCK_BOOTTIME; at once if it has passed.
  EventSource at(Time when, Handler handler);
  // Every period, first after one period. Periods that passed while a handler was busy are skipped,
  // not made up.
  EventSource every(Duration period, Handler handler);
  // Once, in the next turn: for what must not happen inside the present call.
  EventSource soon(Handler handler);

  // Blocks the signal in the calling thread and hands it to the loop. To be called before any
  // thread is started, as threads inherit what is blocked. The signal stays blocked when the source
  // ends.
  Result<EventSource> on_signal(int signal, Handler handler);

  // Called when a file is written, moved, made or removed in a folder (with its name), or when the
  // path itself changes or events were lost (with an empty name: look at everything again).
  Result<EventSource> on_change(const std::filesystem::path& path,
                                std::function<void(std::string_view name)> handler);

  // Answers systemd's watchdog from this loop if it asks for that (WATCHDOG_USEC), so that a loop
  // that hangs is restarted. False if it does not ask.
  Result<bool> enable_watchdog();

  // Until stop(), which may be called from a handler or before. It can run again afterwards.
  Result<void> run();
  // One turn: waits at most so long for an event, handles what has come. For tests and short
  // programs.
  Result<void> run_once(Duration max_wait);
  void stop();

 private:
  explicit EventLoop(sd_event* event);

  sd_event* event_;
  bool stopped_{};
};

}  // namespace heddle
