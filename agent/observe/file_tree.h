// The port to a tree of small files, such as sysfs or a recording of it.
#pragma once

#include <string>
#include <vector>

#include "common/core/result.h"

namespace heddle {

class FileTree {
 public:
  virtual ~FileTree() = default;

  // Names in a folder, sorted; none if there is no such folder.
  virtual std::vector<std::string> list(const std::string& folder) const = 0;
  // A file's text without the closing newline. Errc::not_found; Errc::unobservable if it is there
  // and cannot be read, as sysfs refuses what a driver does not offer.
  virtual Result<std::string> read(const std::string& file) const = 0;
};

}  // namespace heddle
