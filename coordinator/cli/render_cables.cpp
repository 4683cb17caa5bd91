// How the cables lie: `heddle fabric check` without a file.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "coordinator/cli/human.h"
#include "coordinator/cli/render_parts.h"

namespace heddle {
namespace {

// One line for each reason: a fabric without lldpd would otherwise fill screens.
std::string silent_nodes(const Json& reply) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const Json& node : elements(reply, "silent"))
    by_reason[text(member(node, "reason"))].push_back(text(member(node, "name")));
  std::string out;
  for (const auto& [reason, names] : by_reason) {
    constexpr std::size_t kMost = 8;
    const std::vector<std::string> first(
        names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMost)));
    out += fmt::format(
        "  {}{}: {}\n", fmt::join(first, ", "),
        names.size() > kMost ? fmt::format(" and {} more", names.size() - kMost) : "", reason);
  }
  return out;
}

}  // namespace

std::string render_cables(const Json& reply, bool colour) {
  const std::uint64_t differences = elements(reply, "differences").size();
  const Json& cables = member(reply, "cables");
  std::string out =
      fmt::format("{}: {} of {} cables are where the file says; {}; {} nobody tells of\n",
                  text(member(reply, "fabric")), text(member(cables, "verified")),
                  text(member(cables, "expected")),
                  painted(counted(differences, "difference"),
                          differences == 0 ? Tone::good : Tone::bad, colour),
                  text(member(cables, "unverified")));
  if (differences > 0) {
    Table table({{"KIND"}, {"WHAT"}});
    for (const Json& one : elements(reply, "differences"))
      table.add({{text(member(one, "kind")), Tone::bad}, {text(member(one, "text"))}});
    out += "\n" + table.text(colour);
  }
  Table parallel({{"PARALLEL CABLES"}, {"IN THE FILE", Align::right}, {"FOUND", Align::right}});
  for (const Json& one : elements(reply, "parallel"))
    parallel.add({{text(member(one, "leaf")) + "-" + text(member(one, "spine"))},
                  {text(member(one, "expected"))},
                  {text(member(one, "found")),
                   member(one, "found") == member(one, "expected") ? Tone::plain : Tone::warning}});
  if (!parallel.empty())
    out += "\n" + parallel.text(colour);
  if (const std::string silent = silent_nodes(reply); !silent.empty())
    out += "\n" + painted("Nodes that tell nothing of their neighbours", Tone::strong, colour) +
           "\n" + silent;
  return out;
}

}  // namespace heddle
