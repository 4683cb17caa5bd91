// The families of commands that command_line.cpp puts together; each adds its commands to the root
// and hands on what was typed. One thread.
#pragma once

#include <functional>

#include "coordinator/cli/command_line.h"

namespace CLI {
class App;
}

namespace heddle {

// keygen, key, fabric, support-bundle: what needs no coordinator.
void add_offline_commands(CLI::App& root, const std::function<void(Action)>& chosen);
// rollout, drain, undrain.
void add_switching_commands(CLI::App& root, const std::function<void(Action)>& chosen);
// `plan log`.
void add_plan_log(CLI::App& plan, const std::function<void(Action)>& chosen);

}  // namespace heddle
