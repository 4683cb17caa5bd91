// heddle, the command line: the map of its parts.
//
//   arguments -> command_line -> run --(offline)--> keys, fabric files
//                                 |
//                                 +--> settings -> zmq_line (channel_line over ZeroMQ) ->
//                                 coordinator
//                                 +<-- render <------------------------------ reply's JSON
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/cli/run.h"
#include "coordinator/cli/zmq_line.h"

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
  };
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return static_cast<int>(heddle::run(arguments, surroundings));
}
