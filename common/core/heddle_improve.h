// Job-aware improvement: raises jobs one by one, the worst off first, without letting another fall
// below what that is worth. Source of the exchanges: alternating paths, as in edge colouring
// (Koenig), and ejection chains. Pure and deterministic; its effort is bounded by a count of
// inspected items, never by a clock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/core/heddle_state.h"

namespace heddle {

class Improver {
 public:
  struct Limits {
    std::int64_t effort{};      // items and choices to inspect in all
    std::uint32_t max_moves{};  // units that may be away from where they run now
  };

  Improver(PlacementState& state, const Limits& limits);

  // Looks once at what stays the same, so that the first event costs no more than others.
  void prepare();
  // Places those that are nowhere, in that order, each where the narrower of its links then has the
  // largest share. Counts as no move.
  void place_new(std::span<const std::uint32_t> order);
  // Tells every job's efficiency anew; before anything is raised.
  void judge();
  // Raises jobs until none can be raised, or the effort is spent. `most` by job: none can get above
  // it (bounds.h). Whether anything changed. The second form raises some jobs only.
  bool run(std::span<const double> most);
  bool run(std::span<const double> most, std::vector<std::uint32_t> jobs);
  // After items have come to the links they are on, or left them: judges their jobs and those
  // beside them anew, and gives fresh effort. Those jobs.
  std::vector<std::uint32_t> assess(std::span<const std::uint32_t> items);
  // Places a job that comes, and lets others make room for it, so that it gets all it can (`most`)
  // and they keep all they have. Whether that is possible; if not, nothing has changed.
  bool arrive(JobId job, std::span<const double> most);
  // Whether every leaf has as many links, all of one capacity.
  bool leaves_alike() {
    prepare();
    return leaves_alike_;
  }
  // No more than that from now on.
  void allow(std::int64_t effort) { effort_ = std::min(effort_, effort); }
  // Raises that job alone.
  void run_only(JobId job, std::span<const double> most);
  // Puts back every unit that runs elsewhere now without any job being better off for it.
  void undo_needless();

  std::span<const double> efficiencies() const { return efficiency_; }

 private:
  bool raise(JobId job);
  bool raise_to(JobId job, double target);
  double next_level(JobId job, double least);
  // Ratios of sums of rates are equal if they differ by less than this part.
  static constexpr double kEqual = 1e-9;

  bool room_in_all_leaves(JobId job);
  // What each leaf has to hold, in each direction: links, and the single subflows that have no
  // other leaf. By leaf, out and in.
  struct Side {
    // Links of one capacity, the widest first.
    struct Links {
      double capacity{};
      std::uint32_t count{};
      std::uint32_t part{};  // how often it goes into the widest, if that is a whole number
    };
    // Items that always have one price: of one job, with one need.
    struct Group {
      std::uint32_t item{};  // one of them
      std::uint32_t count{};
      JobId job;
      double need{};
    };
    std::vector<Links> links;
    std::vector<Group> groups;
    std::uint32_t items{};
    bool multiples{};  // the widest capacity is a whole multiple of each
    bool spacious{};   // with a link for each item nobody need share
    std::uint32_t checked{};
  };
  void find_sides();
  void group(Side& side, std::uint32_t item);
  // Nothing while it is stopped.
  double price(const Side::Group& group) const {
    return state_.active(group.item) ? group.need * floor_[group.job.value] : 0.0;
  }
  bool room_on(const Side& side);
  bool room_on_unlike(const Side& side);
  bool places_for_all(const Side& side, std::size_t unseen) const;
  bool settle(std::uint32_t item);
  bool relocate(std::uint32_t item);
  bool move_directly(std::uint32_t item, ResourceId avoid);
  bool exhausted_here() const { return effort_ <= stop_at_; }
  bool exchange(std::uint32_t item, const Model::Choice& to, SpineId other);
  bool place_again(JobId job);
  // What follows is for arrive() where everything is alike (heddle_improve_chain.cpp).
  struct Vertex {  // a leaf, as what sends or what receives
    std::uint32_t leaf{};
    bool out{};
  };
  struct Ends {  // leaves of an item
    std::uint32_t from{};
    std::uint32_t to{};
  };
  struct Shift {
    std::uint32_t item{};
    std::uint32_t spine{};
  };
  void find_alike();
  void shift(std::uint32_t item, const Model::Choice& to);
  bool arrive_alike(JobId job);
  bool insert_alike(std::uint32_t item);
  void find_chain(std::uint32_t newcomer, Vertex at, std::uint32_t full, std::uint32_t open,
                  std::size_t longest);
  void follow_chain();
  void go_back(std::size_t mark);
  ResourceId link_of(Vertex at, std::uint32_t spine) const;
  Vertex end_of(std::uint32_t item, bool out) const;
  std::uint64_t* open_links(Vertex at);
  void tell_open(Vertex at, std::uint32_t spine);
  std::uint32_t common_spine(Vertex a, Vertex b);
  int first_open(Vertex at, std::uint32_t* spines);
  bool insert(std::uint32_t item);
  bool shift_one(ResourceId from, SpineId a, SpineId b);
  void move(std::uint32_t item, const Model::Choice& to);

  // The rate that the item must keep on each subflow: its need, by its job's floor.
  double price(std::uint32_t item) const {
    double price = 0.0;
    state_.for_each_job(item, [&](JobId job, double need) {
      const bool unsettled = job == raised_ && settled_[item] != attempt_;
      price = std::max(price, need * (unsettled ? raised_from_ : floor_[job.value]));
    });
    return price;
  }
  // Whether everybody on the link, and the newcomer, would keep their price.
  bool fits(ResourceId r, std::uint32_t newcomer, double own_price) {
    const double shares = state_.count(r) + state_.size(newcomer);
    const double room = state_.capacity(r) * (1.0 + kEqual);
    return own_price * shares <= room && highest_price(r) * shares <= room;
  }
  bool overfull(ResourceId r) {
    return highest_price(r) * state_.count(r) > state_.capacity(r) * (1.0 + kEqual);
  }
  double highest_price(ResourceId r) {
    spend(1);
    const Price& known = prices_[r.value];
    return known.attempt == attempt_ ? known.highest : find_highest_price(r);
  }
  double find_highest_price(ResourceId r);
  void forget_price(ResourceId r) { prices_[r.value].attempt = 0; }
  void raise_price(std::uint32_t item);
  void roll_back(std::size_t mark);
  void spend(std::size_t items) { effort_ -= static_cast<std::int64_t>(items); }
  bool away(std::uint32_t item, const Model::Choice& choice) const;
  void refresh(std::size_t mark);

  PlacementState& state_;
  const Model& model_;
  Limits limits_;
  std::span<const double> most_;  // by job
  std::int64_t effort_;
  std::int64_t stop_at_{};  // what must be left of it when the item at hand is given up
  std::uint32_t moves_{};
  std::vector<Model::Choice> current_;  // by unit: where it runs now
  std::vector<double> efficiency_;      // by job
  std::vector<double> floor_;           // by job: what it must keep
  JobId raised_;  // its items are held to their old floor until each is settled
  double raised_from_{};
  // By resource: the highest price of those on it, as long as it is known.
  struct Price {
    std::uint32_t attempt{};  // in which it was found
    double highest{};
  };
  std::vector<Price> prices_;
  std::vector<std::uint32_t> settled_;  // by item: the attempt that settled it
  std::uint32_t attempt_{};
  std::vector<std::uint32_t> shifted_;  // by item: the exchange that shifted it
  std::uint32_t exchange_{};
  std::vector<ResourceId> crowded_;
  std::vector<Side> sides_;
  bool leaves_alike_{};  // all have as many links, of one capacity
  std::vector<std::uint32_t> by_tolerance_;
  std::vector<std::pair<double, std::uint32_t>> by_price_;
  // What failed last, by job: nothing is tried again before something has changed, and then the
  // hardest first.
  struct Failure {
    std::uint64_t at_change{~std::uint64_t{0}};
    std::uint32_t side{PlacementState::kNone};
  };
  std::vector<Failure> failures_;
  std::uint64_t changes_{};
  bool alike_{};                // all links, and all items
  std::uint32_t words_{};       // of a leaf's links, a bit each
  std::uint32_t each_holds_{};  // subflows, at the present price
  std::uint32_t spines_{};
  std::vector<Ends> ends_;           // by item
  std::uint32_t first_downlink_{};   // of the first leaf; the others' follow, by leaf and spine
  std::vector<ResourceId> uplinks_;  // by leaf and spine
  std::vector<std::uint64_t> open_;  // by leaf, out and in: its links that hold fewer, by spine
  std::vector<std::uint32_t> open_since_;  // by leaf, out and in: the attempt that looked it up
  std::vector<Shift> chain_;
  std::vector<Shift> best_chain_;
  std::vector<std::uint32_t> hardest_;  // by job: the item that the last attempt could not settle
};

}  // namespace heddle
