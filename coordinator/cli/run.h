// The command line from what was typed to an exit code. What it touches (the coordinator, the
// terminal, the pause of
// --watch) is handed in, so that every path is tested without any of them. One thread.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"
#include "common/core/units.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/coordinator_line.h"
#include "coordinator/cli/settings.h"

namespace heddle {

struct Surroundings {
  std::ostream& out;
  std::ostream& err;
  bool terminal{};               // whether `out` is one: --watch then draws over itself
  bool colour{};                 // for tables
  std::filesystem::path config;  // read unless --config names another
  std::string_view version;
  std::function<Result<std::unique_ptr<CoordinatorLine>>(const Settings&)> connect;
  std::function<bool(Duration)> pause;  // between two turns of --watch; false ends it
  // What a shell command prints, errors included; for the support bundle.
  std::function<std::string(const std::string&)> shell{};
  WallTime now{};
};

// `arguments` without the program's own name.
Exit run(const std::vector<std::string>& arguments, const Surroundings& surroundings);

}  // namespace heddle
