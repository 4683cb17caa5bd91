// Where every unit is, what each link carries, and how well off each job is by its links' equal
// shares: the working memory of the heddle optimiser. A link's equal share is never more than what
// water-filling gives its slowest flow, so what this says of a job is a lower bound of its
// efficiency, and it changes only near what moved. Pure; belongs to one caller; the model must
// outlive it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "common/core/efficiency.h"
#include "common/core/optimiser_model.h"

namespace heddle {

class PlacementState {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  // What runs at the same time: every job in its heaviest phase, but `job` in `phase`.
  struct Layer {
    JobId job;
    std::uint32_t phase{};
  };

  PlacementState(const Model& model, const Evaluator& evaluator, const Layer& layer);

  // Items are the model's units, by the same numbers, and behind them the fixed subflows.
  std::uint32_t items() const { return static_cast<std::uint32_t>(items_.size()); }
  std::uint32_t units() const { return static_cast<std::uint32_t>(model_.units().size()); }
  const Model& model() const { return model_; }
  // Whether it takes part in this layer.
  bool active(std::uint32_t item) const { return items_[item].size > 0; }
  bool movable(std::uint32_t item) const { return items_[item].movable && active(item); }
  void pin_down(std::uint32_t item) { items_[item].movable = false; }
  const Model::Choice& choice(std::uint32_t item) const { return items_[item].choice; }
  ResourceId up(std::uint32_t item) const { return items_[item].up; }
  ResourceId down(std::uint32_t item) const { return items_[item].down; }
  std::uint32_t size(std::uint32_t item) const { return items_[item].size; }
  double capacity(ResourceId r) const { return resources_[r.value].capacity; }
  std::uint32_t count(ResourceId r) const { return counts_[r.value]; }
  SpineId spine(ResourceId r) const;
  bool is_uplink(ResourceId r) const { return r.value < cables_; }

  // Calls visit(item) for each item on a resource until it returns true; whether it did. The item
  // may move in its visit.
  template <class Visit>
  bool any_on(ResourceId r, Visit visit) const {
    const bool up = is_uplink(r);
    for (std::uint32_t i = heads_[r.value]; i != kNone;) {
      const std::uint32_t next = up ? items_[i].next_up : items_[i].next_down;
      if (visit(i))
        return true;
      i = next;
    }
    return false;
  }

  // The first item on a resource that is so, or kNone.
  template <class Is>
  std::uint32_t first_on(ResourceId r, Is is) const {
    std::uint32_t i = heads_[r.value];
    while (i != kNone && !is(i))
      i = is_uplink(r) ? items_[i].next_up : items_[i].next_down;
    return i;
  }

  // Takes an item out of the layer, or back in, where it was placed last. Not remembered for
  // roll_back.
  void stop(std::uint32_t item);
  void start(std::uint32_t item);
  // Its subflows when it runs.
  std::uint32_t whole(std::uint32_t item) const { return items_[item].whole; }

  // Moves an item, or places one that is nowhere, and remembers it for roll_back.
  void move(std::uint32_t item, const Model::Choice& to);
  std::size_t mark() const { return journal_.size(); }
  void roll_back(std::size_t mark);
  void forget_journal() { journal_.clear(); }
  // Items moved since the mark, with repeats.
  template <class Visit>
  void for_each_moved(std::size_t mark, Visit visit) const {
    for (std::size_t i = mark; i < journal_.size(); ++i)
      visit(journal_[i].item, journal_[i].from);
  }

  // The share of each subflow of an item: the smaller one of its two links'.
  double share(std::uint32_t item) const { return 1.0 / load(item); }
  // The job's efficiency by equal shares, 1 if nothing of it crosses the core.
  double efficiency(JobId job) const;
  std::span<const std::uint32_t> items_of(JobId job) const {
    return std::span(job_items_)
        .subspan(first_of_job_[job.value], first_of_job_[job.value + 1] - first_of_job_[job.value]);
  }
  std::uint32_t jobs() const { return static_cast<std::uint32_t>(first_of_job_.size() - 1); }
  // Calls visit(job, need): what each subflow of the item must get for that job to reach
  // efficiency 1.
  template <class Visit>
  void for_each_job(std::uint32_t item, Visit visit) const {
    const Item& it = items_[item];
    visit(it.job, it.need);
    for (std::uint32_t e = it.more; e != kNone; e = more_[e].next)
      visit(more_[e].job, more_[e].need);
  }
  double need(std::uint32_t item, JobId job) const {
    double found = items_[item].need;
    for (std::uint32_t e = items_[item].more; e != kNone; e = more_[e].next)
      if (more_[e].job == job)
        found = more_[e].need;
    return found;
  }
  // Of an item of one job.
  JobId job(std::uint32_t item) const { return items_[item].job; }
  double own_need(std::uint32_t item) const { return items_[item].need; }

 private:
  struct Item {
    Model::Choice choice;
    ResourceId up;
    ResourceId down;
    std::uint32_t size{};   // subflows that run in this layer, 0 while it is stopped
    std::uint32_t whole{};  // the same when it runs
    std::uint32_t next_up{kNone}, previous_up{kNone};
    std::uint32_t next_down{kNone}, previous_down{kNone};
    double need{};
    JobId job;                  // of most items the only one
    std::uint32_t more{kNone};  // further jobs, of a unit that several share
    bool movable{};
  };
  struct Resource {
    double capacity{};
    double inverse{};  // of the capacity
  };
  struct More {
    JobId job;
    double need{};
    std::uint32_t next{kNone};
  };
  struct Step {
    std::uint32_t item;
    Model::Choice from;
  };

  // Subflows for each bit per second of the fuller one of its two links.
  double load(std::uint32_t item) const {
    const std::uint32_t up = items_[item].up.value, down = items_[item].down.value;
    return std::max(counts_[up] * resources_[up].inverse, counts_[down] * resources_[down].inverse);
  }
  void add_member(Item& item, std::uint32_t subflow, const Evaluator& evaluator,
                  const Layer& layer);
  void index_jobs();
  // Fixed subflows have no choice, but a place.
  bool on_links(std::uint32_t item) const {
    return items_[item].choice.placed() || item >= units();
  }
  void link(std::uint32_t item);
  void unlink(std::uint32_t item);
  void put(std::uint32_t item, const Model::Choice& to);

  const Model& model_;
  std::uint32_t cables_;
  std::vector<Item> items_;
  std::vector<More> more_;
  std::vector<Resource> resources_;
  // By resource: subflows on it, and its first item. What is asked most lies closest.
  std::vector<std::uint32_t> counts_;
  std::vector<std::uint32_t> heads_;
  std::vector<std::uint32_t> first_of_job_;
  std::vector<std::uint32_t> job_items_;
  std::vector<Step> journal_;
};

}  // namespace heddle
