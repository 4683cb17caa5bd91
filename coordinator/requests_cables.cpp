// `heddle fabric check` without a file: how the cables lie.
#include <algorithm>
#include <string_view>

#include "coordinator/coordinator.h"
#include "coordinator/requests.h"
#include "coordinator/serve/answers_cables.h"

namespace heddle {
namespace {

// Why a node with an agent tells nothing of its neighbours.
std::string why_silent(const AgentState& agent) {
  if (!agent.connected)
    return "its agent is not connected";
  const auto lldp = std::ranges::find(agent.sources, "lldp", &SourceCapability::name);
  if (lldp == agent.sources.end())
    return "its agent is of a version without neighbours";
  return lldp->reason.empty() ? "it has not told yet" : lldp->reason;
}

}  // namespace

Reply Coordinator::cable_request(const Request& request) {
  if (!request.arguments.empty())
    return bad(AnswerCode::usage, "'fabric check' takes no argument here");
  std::vector<SilentNode> silent;
  const auto look_at = [&](const std::string& node) {
    const AgentState* const agent = broadcast_.find(node);
    // What it said last may not be so any more; once it is back it says it again.
    if (agent == nullptr || !agent->connected)
      cables_.forget(node);
    if (!cables_.hears(node))
      silent.push_back({node, agent == nullptr ? "no agent runs there" : why_silent(*agent)});
  };
  for (const Topology::Leaf& leaf : topology_.leaves())
    look_at(leaf.name);
  for (const Topology::Spine& spine : topology_.spines())
    look_at(spine.name);
  for (const Topology::Host& host : topology_.hosts())
    look_at(host.name);
  const CableCheck check = cables_.check(topology_);
  Reply reply = good(cables_json(check, topology_.name(), silent));
  // As with a file: mistakes were found.
  if (!check.differences.empty())
    reply.exit_code = static_cast<std::uint8_t>(AnswerCode::refused);
  return reply;
}

}  // namespace heddle
