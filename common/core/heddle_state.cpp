#include "common/core/heddle_state.h"

#include <algorithm>

namespace heddle {

PlacementState::PlacementState(const Model& model, const Evaluator& evaluator, const Layer& layer)
    : model_(model), cables_(static_cast<std::uint32_t>(model.topology().cables().size())) {
  for (const Model::Resource& resource : model.resources())
    resources_.push_back({.capacity = resource.capacity, .inverse = 1.0 / resource.capacity});
  counts_.assign(resources_.size(), 0);
  heads_.assign(resources_.size(), kNone);
  items_.reserve(model.units().size());
  for (const Model::Unit& unit : model.units()) {
    Item item;
    item.movable = true;
    for (const std::uint32_t s : model.members(unit))
      add_member(item, s, evaluator, layer);
    items_.push_back(item);
  }
  for (const auto& [s, path] : model.placed()) {
    if (!model.is_fixed(s) || !path.crosses_core())
      continue;
    Item item;
    add_member(item, s, evaluator, layer);
    item.up = model.uplink(path.up);
    item.down = model.downlinks(model.spine_of(path.up), model.topology()[path.to].leaf);
    if (item.size == 0 || capacity(item.up) <= 0.0 || capacity(item.down) <= 0.0)
      continue;  // its job gets nothing wherever the others are
    items_.push_back(item);
    link(items() - 1);
  }
  for (Item& item : items_)
    item.whole = item.size;
  index_jobs();
}

void PlacementState::add_member(Item& item, std::uint32_t subflow, const Evaluator& evaluator,
                                const Layer& layer) {
  const FlowDemand& flow = model_.demand_of(subflow);
  const std::uint32_t running =
      flow.job == layer.job ? layer.phase : evaluator.heaviest_phase(flow.job);
  if (flow.phase != running)
    return;
  const double need = evaluator.needed_rate(model_.flow_of(subflow)) / flow.subflows;
  if (item.size++ == 0) {
    item.job = flow.job;
    item.need = need;
    return;
  }
  if (item.job == flow.job) {
    item.need = std::max(item.need, need);
    return;
  }
  for (std::uint32_t e = item.more; e != kNone; e = more_[e].next)
    if (more_[e].job == flow.job) {
      more_[e].need = std::max(more_[e].need, need);
      return;
    }
  more_.push_back({.job = flow.job, .need = need, .next = item.more});
  item.more = static_cast<std::uint32_t>(more_.size() - 1);
}

void PlacementState::index_jobs() {
  first_of_job_.assign(model_.problem().demand.jobs.size() + 1, 0);
  const auto visit_all = [this](auto visit) {
    for (std::uint32_t i = 0; i < items(); ++i)
      if (active(i))
        for_each_job(i, [&](JobId job, double) { visit(i, job.value); });
  };
  visit_all([this](std::uint32_t, std::uint32_t job) { ++first_of_job_[job + 1]; });
  for (std::size_t j = 1; j < first_of_job_.size(); ++j)
    first_of_job_[j] += first_of_job_[j - 1];
  job_items_.resize(first_of_job_.back());
  std::vector<std::uint32_t> next(first_of_job_.begin(), first_of_job_.end() - 1);
  visit_all([&](std::uint32_t item, std::uint32_t job) { job_items_[next[job]++] = item; });
}

SpineId PlacementState::spine(ResourceId r) const {
  if (is_uplink(r))
    return model_.spine_of(CableId{r.value});
  return {(r.value - cables_) % static_cast<std::uint32_t>(model_.topology().spines().size())};
}

void PlacementState::link(std::uint32_t i) {
  Item& item = items_[i];
  counts_[item.up.value] += item.size;
  counts_[item.down.value] += item.size;
  std::uint32_t& first_up = heads_[item.up.value];
  std::uint32_t& first_down = heads_[item.down.value];
  item.previous_up = item.previous_down = kNone;
  item.next_up = first_up;
  item.next_down = first_down;
  if (first_up != kNone)
    items_[first_up].previous_up = i;
  if (first_down != kNone)
    items_[first_down].previous_down = i;
  first_up = first_down = i;
}

void PlacementState::unlink(std::uint32_t i) {
  const Item& item = items_[i];
  counts_[item.up.value] -= item.size;
  counts_[item.down.value] -= item.size;
  (item.previous_up == kNone ? heads_[item.up.value] : items_[item.previous_up].next_up) =
      item.next_up;
  (item.previous_down == kNone ? heads_[item.down.value] : items_[item.previous_down].next_down) =
      item.next_down;
  if (item.next_up != kNone)
    items_[item.next_up].previous_up = item.previous_up;
  if (item.next_down != kNone)
    items_[item.next_down].previous_down = item.previous_down;
}

void PlacementState::put(std::uint32_t i, const Model::Choice& to) {
  Item& item = items_[i];
  if (item.choice.placed() && item.size > 0)
    unlink(i);
  item.choice = to;
  if (!to.placed())
    return;
  item.up = model_.uplink(to.up);
  item.down = model_.downlinks(to);
  if (item.size > 0)
    link(i);
}

void PlacementState::stop(std::uint32_t item) {
  if (items_[item].size == 0)
    return;
  if (on_links(item))
    unlink(item);
  items_[item].size = 0;
}

void PlacementState::start(std::uint32_t item) {
  if (items_[item].size > 0)
    return;
  items_[item].size = items_[item].whole;
  if (on_links(item) && items_[item].size > 0)
    link(item);
}

void PlacementState::move(std::uint32_t item, const Model::Choice& to) {
  journal_.push_back({.item = item, .from = items_[item].choice});
  put(item, to);
}

void PlacementState::roll_back(std::size_t mark) {
  while (journal_.size() > mark) {
    put(journal_.back().item, journal_.back().from);
    journal_.pop_back();
  }
}

double PlacementState::efficiency(JobId job) const {
  double most = 1.0;  // of what is needed, over what there is
  for (const std::uint32_t item : items_of(job))
    if (active(item))
      most = std::max(most, load(item) * need(item, job));
  return 1.0 / most;
}

}  // namespace heddle
