// heddle, the command line: the map of its parts.
//
// clang-format off
//
//   arguments --> command_line --> run --(offline)--> keys, fabric files, support bundle
//                                   |
//                                   +--> settings --> zmq_line (channel_line over ZeroMQ) --> coordinator
//                                   +<-- render <---------------------------------- reply's JSON
//
// clang-format on
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "common/runtime/system_clock.h"
#include "coordinator/cli/run.h"
#include "coordinator/cli/zmq_line.h"

namespace {

// What a shell command prints, errors included.
std::string printed(const std::string& command) {
  std::FILE* pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
  if (pipe == nullptr)
    return "cannot be run\n";
  std::string out;
  std::array<char, 4096> block{};
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe))
    out.append(block.data(), count);
  pclose(pipe);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  // https://no-color.org: present and not empty, whatever it says.
  const char* no_colour = std::getenv("NO_COLOR");
  const heddle::Surroundings surroundings{
      .out = std::cout,
      .err = std::cerr,
      .terminal = terminal,
      .colour = terminal && (no_colour == nullptr || *no_colour == '\0'),
      .config = heddle::kDefaultConfig,
      .version = HEDDLE_VERSION,
      .connect = heddle::open_zmq_line,
      .pause =
          [](heddle::Duration time) {
            std::this_thread::sleep_for(time);
            return true;
          },
      .shell = printed,
      .now = heddle::SystemClock().wall(),
  };
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return static_cast<int>(heddle::run(arguments, surroundings));
}
