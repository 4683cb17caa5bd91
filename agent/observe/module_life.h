// Whether a kernel module is the one that was there before: what was attached to it went with it,
// also where it was loaded again at once and nothing else shows that. One thread; lives as long as
// its source.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

namespace heddle {

class ModuleLife {
 public:
  // The module's folder or file in sysfs (/sys/module/NAME), which the kernel makes anew each time.
  explicit ModuleLife(std::filesystem::path mark) : mark_(std::move(mark)) {}

  // True at first, and when the module was loaded, unloaded or both since the last call.
  bool changed();

 private:
  std::filesystem::path mark_;
  bool asked_{};
  std::optional<unsigned long> number_;  // its inode; none: it is not there
};

}  // namespace heddle
