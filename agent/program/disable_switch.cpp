#include "agent/program/disable_switch.h"

#include "agent/program/files.h"

namespace heddle {
namespace {

bool present(const Result<std::string>& content) {
  return content || content.error().code != Errc::not_found;
}

}  // namespace

DisableSwitch::DisableSwitch(const std::string& state_dir, const std::string& run_dir)
    : kept_(state_dir + "/" + kFile), until_reboot_(run_dir + "/" + kFile) {}

bool DisableSwitch::disabled() const {
  return present(read_small_file(kept_)) || present(read_small_file(until_reboot_));
}

std::string DisableSwitch::by() const {
  auto content = read_small_file(kept_);
  if (!present(content))
    content = read_small_file(until_reboot_);
  if (!content)
    return content.error().code == Errc::not_found ? std::string{} : content.error().message;
  while (!content->empty() && content->back() == '\n')
    content->pop_back();
  return *content;
}

Result<void> DisableSwitch::disable(const std::string& by) {
  Result<void> kept = replace_file(kept_, by + "\n", Outlives::power);
  // Why it is not kept is what there is to say; whether this has helped, disabled() tells.
  if (!kept)
    (void)replace_file(until_reboot_, by + "\n");
  return kept;
}

Result<void> DisableSwitch::enable() {
  Result<void> removed = remove_file(until_reboot_);
  // A read-only disk refuses to remove even what is not there.
  if (!present(read_small_file(kept_)))
    return removed;
  Result<void> removed_kept = remove_file(kept_);
  return removed ? removed_kept : removed;
}

}  // namespace heddle
