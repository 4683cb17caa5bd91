#include "agent/program/own_segments.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

SteeringTables OwnSegments::wanted(bool may_change, const SegmentsInput& input) {
  lack_.clear();
  if (!may_change)
    return segments_in(input.installed);
  SegmentTables wanted = tables_of_segments(input);
  lack_ = std::move(wanted.lack);
  return std::move(wanted.tables);
}

void OwnSegments::check(RouteKernel& kernel, const MainView& view, const Tables& tables) {
  if (configured_.empty() && in_effect_.empty())
    return;
  const SteeringTables installed = segments_in(tables.installed());
  const std::vector<Lookup> lookups = lookups_of_segments(installed, view);
  const auto answers =
      lookups.empty() ? Result<std::vector<LookupAnswer>>{} : kernel.look_up(lookups);
  if (!answers)
    return;
  in_effect_ = segments_in_effect(installed, *answers);
  if (in_effect_.size() == configured_.size() || !lack_.empty())
    return;
  const auto missing = std::ranges::find_if(configured_, [&](const LocalSegment& segment) {
    return std::ranges::find(in_effect_, segment) == in_effect_.end();
  });
  if (missing == configured_.end())
    return;
  const auto refused = tables.failures().find({0, IpAddress{}});
  lack_ =
      fmt::format("the segment {} is not in effect: {}", to_string(missing->address),
                  lookups.empty() && !installed.routes.empty() ? "no port of the fabric has carrier"
                  : refused != tables.failures().end()         ? refused->second
                  : installed.routes.empty()                   ? "it was not there when read back"
                                             : "something else takes its packets; no "
                                               "interface may have its address");
}

}  // namespace heddle
