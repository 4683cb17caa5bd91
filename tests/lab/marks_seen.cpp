#include "tests/lab/marks_seen.h"

#include <chrono>
#include <regex>
#include <string>

#include "tests/lab/process.h"

namespace heddle::lab {

Result<std::vector<MarkedFlow>> marked_flows(const NetNamespace& space) {
  const auto shown =
      capture({.words = {"/usr/sbin/nft", "-n", "list", "ruleset"}, .space = &space, .log = {}},
              std::chrono::seconds{10});
  if (!shown)
    return tl::unexpected(shown.error());
  if (shown->status != 0)
    return fail(Errc::io, "nft list ruleset: " + shown->errors);
  static const std::regex kElement(R"(([0-9a-f.:]+) \. ([0-9a-f.:]+) \. (\d+) : (0x[0-9a-f]+))");
  std::vector<MarkedFlow> flows;
  for (std::sregex_iterator at(shown->text.begin(), shown->text.end(), kElement), end; at != end;
       ++at) {
    const auto source = IpAddress::parse((*at)[1].str());
    const auto destination = IpAddress::parse((*at)[2].str());
    if (source && destination)
      flows.push_back({.flow = {.source = *source,
                                .destination = *destination,
                                .source_port = static_cast<std::uint16_t>(std::stoul((*at)[3]))},
                       .mark = static_cast<std::uint32_t>(std::stoul((*at)[4], nullptr, 16))});
  }
  return flows;
}

}  // namespace heddle::lab
