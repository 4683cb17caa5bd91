// The history as the logic knows it: an append-only memory of what was seen and what was decided.
// It may be slow, full or broken; nothing waits for it (safety rule 8). RocksDB stands behind it
// (rocksdb_history.h).
//
// Thread: the event loop's; answers come on it, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/core/messages.h"
#include "common/core/plan.h"
#include "common/core/result.h"

namespace heddle {

struct MoveRecord {
  std::string flow;
  std::string from;
  std::string to;
  std::string reason;
  bool operator==(const MoveRecord&) const = default;
};

// A plan with everything that was known when it was made.
struct PlanRecord {
  WallTime wall;
  std::string reason;
  double worst{};
  double mean{};
  std::map<std::string, double> by_job{};  // promised efficiency
  std::vector<MoveRecord> moves{};
  RoutePlan plan{};
  // By node, in the order of its pins: since when plans have it so. Records of before 0.2 have
  // none.
  std::map<std::string, std::vector<WallTime>> since{};
};

struct EventRecord {
  WallTime wall;
  std::string text;
  bool operator==(const EventRecord&) const = default;
};

// What was decided, and why: also that nothing is to change. The same decision taken again and
// again is one record with a count.
struct DecisionRecord {
  WallTime wall;   // when it was taken first; no two share one
  WallTime until;  // and last
  std::uint64_t times{1};
  std::string outcome;  // "moved", "held", "waits"
  std::string reason;   // with the numbers
  PlanVersion version;  // of the plan that holds from then on; 0.0: none yet
  bool judged{};        // whether worst and mean are known
  double worst{};
  double mean{};
  std::uint64_t moves{};
  bool operator==(const DecisionRecord&) const = default;
};

struct HistoryStatus {
  bool ok{};
  std::string reason;  // why not: "No space left on device"; what was lost, if anything was
  std::uint64_t written{};
  std::uint64_t dropped{};  // records that were not kept since the start
};

class History {
 public:
  template <class T>
  using Answer = std::function<void(Result<T>)>;

  virtual ~History() = default;
  // None of these blocks, and none reports failure: that is status()'s.
  virtual void keep(WallTime wall, const std::string& node, const Report& report) = 0;
  virtual void keep(WallTime wall, const std::string& node, const LinkChange& change) = 0;
  virtual void keep(std::shared_ptr<const PlanRecord> plan) = 0;
  virtual void keep(const EventRecord& event) = 0;
  // One of the same `wall` is replaced.
  virtual void keep(const DecisionRecord& decision) = 0;

  // Answered later, or never if the disk hangs: who asks keeps a deadline of its own.
  virtual void read_plan(PlanVersion version, Answer<PlanRecord> answer) = 0;
  virtual void read_events(WallTime from, WallTime to, Answer<std::vector<EventRecord>> answer) = 0;
  // The newest `limit` of those after `after`, oldest first.
  virtual void read_decisions(WallTime after, std::size_t limit,
                              Answer<std::vector<DecisionRecord>> answer) = 0;
  virtual HistoryStatus status() const = 0;
};

}  // namespace heddle
