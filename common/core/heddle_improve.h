// Job-aware improvement: raises jobs one by one, the worst off first, without letting another fall
// below what that is worth. Source of the exchanges: alternating paths, as in edge colouring
// (Koenig), and ejection chains. Pure and deterministic; its effort is bounded by a count of
// inspected items, never by a clock.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/core/heddle_state.h"

namespace heddle {

class Improver {
 public:
  struct Limits {
    std::span<const double> by_job;  // no job can get above this (bounds.h)
    std::uint64_t effort{};          // items to inspect in all
    std::uint32_t max_moves{};       // units that may be away from where they run now
  };

  Improver(PlacementState& state, const Limits& limits);

  // Places those that are nowhere, each where it costs the worst-off job least. Counts as no move.
  void place_new();
  // Raises jobs until none can be raised, or the effort is spent. Whether anything changed.
  bool run();
  // Raises that job alone.
  void run_only(JobId job);
  // Puts back every unit that runs elsewhere now without any job being better off for it.
  void undo_needless();

  std::span<const double> efficiencies() const { return efficiency_; }
  bool exhausted() const { return effort_ == 0; }

 private:
  bool raise(JobId job);
  bool raise_to(JobId job, double target);
  double next_level(JobId job) const;
  bool settle(std::uint32_t item);
  bool relocate(std::uint32_t item);
  bool move_directly(std::uint32_t item, ResourceId avoid);
  bool exchange(std::uint32_t item, const Model::Choice& to);
  bool shift_one(ResourceId from, SpineId a, SpineId b);
  void move(std::uint32_t item, const Model::Choice& to);

  // The rate that the item must keep on each subflow: its need, by its job's floor.
  double price(std::uint32_t item) const;
  bool fits(ResourceId r, std::uint32_t newcomer, double price);
  bool overfull(ResourceId r);
  void spend(std::uint64_t items) { effort_ -= std::min(effort_, items); }
  bool away(std::uint32_t item, const Model::Choice& choice) const;
  void refresh(std::size_t mark);

  PlacementState& state_;
  const Model& model_;
  Limits limits_;
  std::uint64_t effort_;
  std::uint32_t moves_{};
  std::vector<Model::Choice> current_;  // by unit: where it runs now
  std::vector<double> efficiency_;      // by job
  std::vector<double> floor_;           // by job: what it must keep
  JobId raised_;  // its items are held to their old floor until each is settled
  double raised_from_{};
  std::vector<std::uint32_t> settled_;  // by item: the attempt that settled it
  std::uint32_t attempt_{};
  std::vector<std::uint32_t> shifted_;  // by item: the exchange that shifted it
  std::uint32_t exchange_{};
  std::vector<ResourceId> crowded_;
  std::vector<Model::Choice> options_;
};

}  // namespace heddle
