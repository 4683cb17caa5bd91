// The answer to `heddle fabric check` without a file: how the cables lie. Pure; the event loop's
// thread.
#pragma once

#include <span>
#include <string>

#include "coordinator/predict/cable_table.h"

namespace heddle {

// A node of the fabric that tells nothing of its neighbours, and why.
struct SilentNode {
  std::string name;
  std::string reason;
};

std::string cables_json(const CableCheck& check, const std::string& fabric,
                        std::span<const SilentNode> silent);

// "leaf1 up1".
std::string to_string(const CableEnd& end);
// What a person reads of a difference, in one sentence.
std::string to_string(const CableDifference& difference);

}  // namespace heddle
