#include "common/core/routing.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

std::string to_string(const Topology& topology, const Path& path) {
  if (!path.routable())
    return "unroutable";
  if (!path.crosses_core())
    return "local";
  const Topology::Cable& cable = topology[path.up];
  const auto bundle = topology.cables_between(cable.leaf, cable.spine);
  const std::string& spine = topology[cable.spine].name;
  if (bundle.size() < 2 || path.spread)
    return spine;
  return fmt::format("{}#{}", spine,
                     std::find(bundle.begin(), bundle.end(), path.up) - bundle.begin() + 1);
}

}  // namespace heddle
