// Runs work on the event loop's thread for other threads: a queue and an eventfd.
//
// Thread: post() from any; the rest on the event loop's. Lifetime: within the loop's, and longer
// than every thread that posts.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "common/core/result.h"
#include "common/runtime/event_loop.h"

namespace heddle {

class LoopExecutor {
 public:
  static Result<std::unique_ptr<LoopExecutor>> create(EventLoop& loop);
  ~LoopExecutor();
  LoopExecutor(const LoopExecutor&) = delete;
  LoopExecutor& operator=(const LoopExecutor&) = delete;

  void post(std::function<void()> work);

 private:
  explicit LoopExecutor(int fd) : fd_(fd) {}
  void run();

  int fd_;
  std::mutex mutex_;
  std::vector<std::function<void()>> work_;
  EventSource source_;
};

}  // namespace heddle
