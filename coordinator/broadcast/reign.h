// The reign: which epoch this coordinator rules in, and which plan versions it issued. An epoch is
// stored before its first use, so that no two starts share one; a coordinator that lost its disk,
// or finds that another one issues plans in its epoch, moves above whatever any agent has seen
// (safety rules 4 and 9).
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/core/plan.h"
#include "common/core/result.h"

namespace heddle {

// Where the epoch outlives us. A file stands behind it, in tests a variable.
class EpochStore {
 public:
  virtual ~EpochStore() = default;
  virtual Result<std::uint64_t> load_epoch() = 0;  // 0 if none was ever stored
  virtual Result<void> store_epoch(std::uint64_t epoch) = 0;
};

class Reign {
 public:
  // Takes the epoch after the stored one. A store that cannot be written is an error: two reigns
  // could share the epoch.
  static Result<Reign> begin(EpochStore& store);

  PlanVersion version() const { return version_; }
  PlanVersion next() {
    ++version_.generation;
    return version_;
  }

  // Whether some coordinator can have issued it: no fabric has seen four thousand million reigns,
  // and beginning above a damaged number could end at the highest that there is.
  bool plausible(PlanVersion held) const {
    return held.epoch <= version_.epoch || held.epoch - version_.epoch <= kFarthest;
  }

  // An agent shows a plausible version; `issued` is the last that was meant for it. If we did not
  // issue what it holds and it is not older than our reign, somebody else rules: the text says who
  // holds what, and the reign is now above it. A store that fails does not stop us (agents must not
  // go without a plan); its error is in the text.
  std::optional<std::string> challenge(const std::string& agent, PlanVersion held,
                                       PlanVersion issued);
  // Likewise for one of our own version numbers with other pins than ours under it.
  std::string contest(const std::string& agent, PlanVersion held);

  // We rule, but by what turned out to be out of date.
  std::string leave(std::string why) { return raise_above(version_.epoch, std::move(why)); }

 private:
  static constexpr std::uint64_t kFarthest = std::uint64_t{1} << 32;
  Reign(EpochStore& store, std::uint64_t epoch) : store_(&store), version_{epoch, 0} {}
  std::string raise_above(std::uint64_t epoch, std::string why);

  EpochStore* store_;
  PlanVersion version_;
};

}  // namespace heddle
