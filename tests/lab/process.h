// Programs under test as child processes, inside a namespace if wanted: started, watched through a
// pidfd, ended in bounded time. An object belongs to one thread; its end is the process's end
// unless release() was called.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/core/result.h"
#include "common/core/units.h"
#include "tests/lab/netns.h"

namespace heddle::lab {

struct Command {
  std::vector<std::string> words;  // the program's path first
  const NetNamespace* space{};     // none: where we are
  std::string log;                 // file to which output and errors are appended; empty: dropped
  bool outlives_us{};              // else the kernel ends it when the thread that started it ends
};

class Child {
 public:
  static Result<Child> start(const Command& command);
  Child(Child&& other) noexcept { *this = std::move(other); }
  Child& operator=(Child&& other) noexcept;
  ~Child();

  pid_t pid() const { return pid_; }
  // The exit status (as a shell counts: 128 + signal), or nothing while it runs after so long.
  std::optional<int> wait(Duration patience);
  // Sends the signal and waits; kills when patience is over.
  int stop(int signal, Duration patience);
  void release();

 private:
  Child() = default;
  friend Result<struct Output> capture(const Command& command, Duration patience);
  static Result<Child> start(const Command& command, int output, int errors);

  pid_t pid_{-1};
  int pidfd_{-1};
  std::optional<int> status_;
};

struct Output {
  int status{};
  std::string text;
  std::string errors;
};

// Runs to the end; Errc::timeout if it takes longer (it is killed then).
Result<Output> capture(const Command& command, Duration patience);

}  // namespace heddle::lab
