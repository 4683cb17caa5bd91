// The marks of flows in a leaf's kernel, seen by other eyes than the agent's: nft's. One thread.
#pragma once

#include <vector>

#include "common/core/reconcile.h"
#include "common/core/result.h"
#include "tests/lab/netns.h"

namespace heddle::lab {

// Empty where there is no table of marks; Errc::io where nft cannot be asked.
Result<std::vector<MarkedFlow>> marked_flows(const NetNamespace& space);

}  // namespace heddle::lab
