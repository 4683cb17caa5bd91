// The port through which the command line asks the coordinator. zmq_line.h stands behind it; tests
// put a coordinator of their own there. One thread.
#pragma once

#include <string>
#include <vector>

#include "common/core/messages.h"
#include "common/core/result.h"
#include "common/core/units.h"

namespace heddle {

class CoordinatorLine {
 public:
  virtual ~CoordinatorLine() = default;
  // Waits for the answer. Errc::timeout if none came in time, Errc::permission if the coordinator
  // refused us, Errc::io if it cannot be reached; the text says where it was sought.
  virtual Result<Reply> ask(const std::string& command, const std::vector<std::string>& arguments,
                            Duration timeout) = 0;
};

}  // namespace heddle
