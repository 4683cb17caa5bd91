#include "coordinator/cli/render.h"

#include <array>
#include <utility>

#include "coordinator/cli/render_parts.h"

namespace heddle {
namespace {

using Renderer = std::string (*)(const Json&, bool);

constexpr auto kRenderers = std::to_array<std::pair<std::string_view, Renderer>>({
    {"status", render_status},
    {"agents", render_agents},
    {"flows", render_flows},
    {"jobs", render_jobs},
    {"job list", render_declarations},
    {"links", render_links},
    {"fabric check", render_cables},
    {"plan show", render_plan},
    {"plan diff", render_plan_diff},
    {"plan explain", render_explanation},
    {"plan log", render_decisions},
    {"rollout start", render_rollout},
    {"rollout status", render_rollout},
    {"rollout pause", render_rollout},
    {"rollout resume", render_rollout},
    {"rollout abort", render_rollout},
    {"rollout rollback", render_rollout},
    {"drain", render_drains},
    {"drain status", render_drains},
    {"undrain", render_drains},
    {"disable", render_switched},
    {"enable", render_switched},
    {"job declare", render_declarations},
    {"job remove", render_declarations},
    {"plan preview", render_preview},
    {"jobs explain", render_job_explanation},
});

// No reply nests deeper; what does is cut off, because printing recurses.
constexpr int kDeepest = 32;

}  // namespace

Result<std::string> render(std::string_view command, std::string_view json, bool colour) {
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepest; };
  const Json reply = Json::parse(json.begin(), json.end(), shallow, false);
  if (reply.is_discarded())
    return fail(Errc::parse, "the coordinator's reply is not JSON");
  for (const auto& [name, renderer] : kRenderers)
    if (name == command)
      return renderer(reply, colour);
  return reply.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace heddle
