#include "agent/program/disable_switch.h"

#include "agent/program/files.h"

namespace heddle {

DisableSwitch::DisableSwitch(std::string state_dir) : path_(std::move(state_dir) + "/disabled") {}

bool DisableSwitch::disabled() const {
  const auto content = read_small_file(path_);
  return content || content.error().code != Errc::not_found;
}

std::string DisableSwitch::by() const {
  auto content = read_small_file(path_);
  if (!content)
    return content.error().code == Errc::not_found ? std::string{} : content.error().message;
  while (!content->empty() && content->back() == '\n')
    content->pop_back();
  return *content;
}

Result<void> DisableSwitch::disable(const std::string& by) {
  return replace_file(path_, by + "\n", Outlives::power);
}

Result<void> DisableSwitch::enable() {
  return remove_file(path_);
}

}  // namespace heddle
