#include "agent/observe/module_life.h"

#include <sys/stat.h>

#include <utility>

namespace heddle {

bool ModuleLife::changed() {
  struct stat status {};
  std::optional<unsigned long> now;
  if (::stat(mark_.c_str(), &status) == 0)
    now = status.st_ino;
  const bool first = !std::exchange(asked_, true);
  return std::exchange(number_, now) != now || first;
}

}  // namespace heddle
