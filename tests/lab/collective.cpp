#include "tests/lab/collective.h"

#include <algorithm>

#include "common/core/check.h"

namespace heddle::lab {
namespace {

class Ring final : public Collective {
 public:
  explicit Ring(int ranks) : ranks_(ranks) {}

  std::vector<Transfer> pairs() const override {
    std::vector<Transfer> all;
    all.reserve(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank)
      all.push_back({rank, (rank + 1) % ranks_});
    return all;
  }
  std::vector<Transfer> begin() override {
    const auto n = static_cast<std::size_t>(ranks_);
    sent_.assign(n, 1);
    received_.assign(n, 0);
    acknowledged_.assign(n, 0);
    return pairs();
  }
  std::vector<Transfer> on_received(const Transfer& message) override {
    const auto rank = static_cast<std::size_t>(message.to);
    ++received_[rank];
    // A rank passes on what it has received, so its right neighbour is sent one piece more than
    // that at most.
    if (sent_[rank] == steps() || sent_[rank] > received_[rank])
      return {};
    ++sent_[rank];
    return {{message.to, (message.to + 1) % ranks_}};
  }
  std::vector<Transfer> on_acknowledged(const Transfer& message) override {
    ++acknowledged_[static_cast<std::size_t>(message.from)];
    return {};
  }
  bool finished() const override {
    const auto done = [this](int count) { return count == steps(); };
    return std::all_of(received_.begin(), received_.end(), done) &&
           std::all_of(acknowledged_.begin(), acknowledged_.end(), done);
  }
  int steps() const override { return 2 * (ranks_ - 1); }

 private:
  int ranks_;
  std::vector<int> sent_;
  std::vector<int> received_;
  std::vector<int> acknowledged_;
};

class AllToAll final : public Collective {
 public:
  explicit AllToAll(int ranks) : ranks_(ranks) {}

  std::vector<Transfer> pairs() const override {
    std::vector<Transfer> all;
    for (int step = 1; step < ranks_; ++step)
      for (int rank = 0; rank < ranks_; ++rank)
        all.push_back({rank, (rank + step) % ranks_});
    return all;
  }
  std::vector<Transfer> begin() override {
    const auto n = static_cast<std::size_t>(ranks_);
    step_.assign(n, 1);
    acknowledged_.assign(n, 0);
    arrived_.assign(n, std::vector<bool>(n + 1, false));
    std::vector<Transfer> first;
    first.reserve(n);
    for (int rank = 0; rank < ranks_; ++rank)
      first.push_back({rank, (rank + 1) % ranks_});
    return first;
  }
  std::vector<Transfer> on_received(const Transfer& message) override {
    const int step = (message.to - message.from + ranks_) % ranks_;
    arrived_[static_cast<std::size_t>(message.to)][static_cast<std::size_t>(step)] = true;
    return go_on(message.to);
  }
  std::vector<Transfer> on_acknowledged(const Transfer& message) override {
    ++acknowledged_[static_cast<std::size_t>(message.from)];
    return go_on(message.from);
  }
  bool finished() const override {
    return std::all_of(step_.begin(), step_.end(), [this](int step) { return step == ranks_; });
  }
  int steps() const override { return ranks_ - 1; }

 private:
  std::vector<Transfer> go_on(int rank) {
    const auto at = static_cast<std::size_t>(rank);
    int& step = step_[at];
    if (step == ranks_ || acknowledged_[at] < step || !arrived_[at][static_cast<std::size_t>(step)])
      return {};
    ++step;
    if (step == ranks_)
      return {};
    return {{rank, (rank + step) % ranks_}};
  }

  int ranks_;
  std::vector<int> step_;  // the one each rank is in, from 1; `ranks_` when it is through
  std::vector<int> acknowledged_;
  std::vector<std::vector<bool>> arrived_;  // by rank, by step
};

}  // namespace

std::unique_ptr<Collective> make_collective(Pattern pattern, int ranks) {
  HEDDLE_CHECK(ranks >= 2);
  if (pattern == Pattern::ring_all_reduce)
    return std::make_unique<Ring>(ranks);
  return std::make_unique<AllToAll>(ranks);
}

}  // namespace heddle::lab
