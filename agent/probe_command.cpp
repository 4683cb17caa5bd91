#include "agent/probe_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace heddle {
namespace {

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::yes:
      return "yes";
    case Verdict::limited:
      return "limited";
    case Verdict::no:
      return "no";
  }
  return "unknown";
}

}  // namespace

std::string text_of(const ProbeReport& report) {
  std::string out;
  std::string area;
  for (const char* const wanted : {"sources", "enforcers", "settings"}) {
    for (const ProbeLine& line : report.lines) {
      if (line.area != wanted)
        continue;
      if (area != line.area)
        out += fmt::format("{}{}\n", out.empty() ? "" : "\n", line.area);
      area = line.area;
      out += fmt::format("  {:<20} {}{}{}\n", line.name, name_of(line.verdict),
                         line.reason.empty() ? "" : ": ", line.reason);
      if (!line.remedy.empty())
        out += fmt::format("  {:<20}   -> {}\n", "", line.remedy);
    }
  }
  return out;
}

std::string json_of(const ProbeReport& report) {
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  for (const ProbeLine& line : report.lines)
    lines.push_back({{"area", line.area},
                     {"name", line.name},
                     {"verdict", name_of(line.verdict)},
                     {"reason", line.reason},
                     {"remedy", line.remedy}});
  const nlohmann::ordered_json json{{"usable", report.usable}, {"lines", std::move(lines)}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

ExitCode print_probe(const ProbeFacts& facts, bool json) {
  const ProbeReport report = judge(facts);
  fmt::print("{}", json ? json_of(report) : text_of(report));
  return report.usable ? kOk : kFailed;
}

}  // namespace heddle
