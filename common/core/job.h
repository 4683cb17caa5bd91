// A job as an operator declares it: a name and the hosts that take part.
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct JobDeclaration {
  std::string name;
  std::vector<std::string> hosts;
  int line{};  // where the job file says so; 0 if declared by command
  bool operator==(const JobDeclaration&) const = default;
};

}  // namespace heddle
