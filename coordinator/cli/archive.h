// A .tar.gz in memory, of small text files. Any thread.
#pragma once

#include <map>
#include <string>

#include "common/core/result.h"
#include "common/core/units.h"

namespace heddle {

// `files`: by path, which is at most 100 octets. Errc::invalid_argument for a longer one.
Result<std::string> tar_gz(const std::map<std::string, std::string>& files, WallTime wall);

}  // namespace heddle
