#include "coordinator/history/decision_log.h"

#include <algorithm>
#include <utility>

namespace heddle {

namespace {

constexpr std::size_t kRecent = 256;
constexpr Duration kTellAgain = std::chrono::minutes(1);

}  // namespace

std::vector<DecisionRecord> DecisionLog::note(DecisionRecord decision, WallTime now) {
  std::vector<DecisionRecord> kept;
  if (!recent_.empty()) {
    DecisionRecord& last = recent_.back();
    if (last.outcome == decision.outcome && last.reason == decision.reason &&
        last.version == decision.version) {
      ++last.times;
      last.until = std::max(last.until, now);
      if (now - told_ >= kTellAgain) {
        told_ = now;
        kept.push_back(last);
      }
      return kept;
    }
    if (last.times > 1)
      kept.push_back(last);
    // The wall clock may have been set back, and two decisions never share a time.
    now = std::max(now, last.until + Duration(1));
  }
  decision.wall = decision.until = told_ = now;
  decision.times = 1;
  kept.push_back(decision);
  recent_.push_back(std::move(decision));
  if (recent_.size() > kRecent)
    recent_.pop_front();
  return kept;
}

}  // namespace heddle
