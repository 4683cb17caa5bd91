// The node's own segments, from what is configured to what is in effect: which tables they want,
// and which of them the kernel acts on. One thread; lives as long as the programmer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/program/segments.h"
#include "agent/program/tables.h"

namespace heddle {

class OwnSegments {
 public:
  explicit OwnSegments(std::vector<LocalSegment> configured) : configured_(std::move(configured)) {}

  // `may_change`: while something forbids it they stay as they are: other nodes lean on them.
  SteeringTables wanted(bool may_change, const SegmentsInput& input);
  // The kernel is asked each time: what takes their packets may lie in any table.
  void check(RouteKernel& kernel, const MainView& view, const Tables& tables);

  // Those that were read back and are in effect, sorted.
  const std::vector<LocalSegment>& in_effect() const { return in_effect_; }
  // Why it is not all of them; empty if it is.
  const std::string& lack() const { return lack_; }
  // None is to be there.
  void want_none() { lack_.clear(); }

 private:
  std::vector<LocalSegment> configured_;
  std::vector<LocalSegment> in_effect_;
  std::string lack_;
};

}  // namespace heddle
