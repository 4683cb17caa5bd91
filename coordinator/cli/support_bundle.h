// `heddle support-bundle`: what a bug report needs, in one file. Secret keys are never read into
// it, and a text that holds one by mistake is cleaned of it. What it asks is handed in, so that
// every part is tested. One thread.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/messages.h"
#include "common/core/result.h"
#include "coordinator/cli/command_line.h"

namespace heddle {

struct BundleSources {
  std::function<Result<Reply>(const std::string& command)> ask;  // the coordinator
  std::function<std::string(const std::string& command)> shell;  // what a command prints
  std::filesystem::path configuration{"/etc/heddle"};
  std::filesystem::path state{"/var/lib/heddle"};
  std::string_view version;
  WallTime now;
};

Exit collect_bundle(const SupportBundle& bundle, const BundleSources& sources, bool json,
                    std::ostream& out, std::ostream& err);

// The text without `secrets`, and without words that are a key by their form.
std::string without_keys(std::string text, const std::vector<std::string>& secrets);

}  // namespace heddle
