// The decisions of late, with the same one taken again and again folded into one, and what of them
// the history is to be told. Each is told when it is first taken; how often it was repeated is told
// once a minute and when it ends.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <deque>
#include <vector>

#include "coordinator/history/history.h"

namespace heddle {

class DecisionLog {
 public:
  // `wall`, `until` and `times` are the log's to fill in. Returns what is to be kept, oldest first.
  std::vector<DecisionRecord> note(DecisionRecord decision, WallTime now);

  // Oldest first; the last one may still be repeated.
  const std::deque<DecisionRecord>& recent() const { return recent_; }

 private:
  std::deque<DecisionRecord> recent_;
  WallTime told_;  // when the history was last told of the newest
};

}  // namespace heddle
