// From a plan to the steering tables that it means on this node now, by the enforcer that is
// configured, and why some of its pins cannot be held. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/program/enforcer.h"
#include "agent/program/main_view.h"
#include "agent/program/ownership.h"
#include "agent/program/route_kernel.h"
#include "common/core/plan.h"
#include "common/core/reconcile.h"

namespace heddle {

struct DesireInput {
  const std::vector<Pin>& pins;  // sorted by unit
  const MainView& view;
  const SteeringTables& installed;  // ids and tables in use are kept
  const Ownership& record;
  const std::vector<std::string>& uplinks;
  const std::vector<std::string>& host_ports;
  const RoutingRanges& ranges;
  Enforcer enforcer{};
  std::span<const Prefix> never_touch{};  // nothing that moves a flow from or to these is held
  std::string_view unfit_for_ipv6{};      // why no pin of IPv6 is held; empty if nothing forbids it
  SteeringTables segments{};  // of this node, which no pin needs: their ids and tables are taken
};

struct Desire {
  struct Held {
    std::size_t pin{};  // its position in the plan
    PinRoute route;
    std::optional<MarkedFlow> mark{};  // what leads the flow to that route
  };
  SteeringTables tables;
  std::vector<Held> held;  // by pin
  std::vector<std::pair<std::size_t, Error>>
      not_held;  // by pin; a held pin may be here, too (rule 6)
  std::vector<std::pair<std::uint32_t, IpAddress>> unresolved;  // gateways to ask for, each once
  std::size_t withdrawn{};  // pins that `main` does not offer (rule 12)
};

Desire desire(const DesireInput& input);

// Whether all that a held pin consists of is there.
bool holds(const SteeringTables& installed, const Desire::Held& held);

}  // namespace heddle
