// The communication pattern of one iteration of a job, as a state machine: who sends to whom, and
// what must have arrived before the next step. Hosts are ranks, 0 to n - 1. Pure; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace heddle::lab {

enum class Pattern : std::uint8_t { ring_all_reduce, all_to_all };

struct Transfer {
  int from{};
  int to{};
  auto operator<=>(const Transfer&) const = default;
};

class Collective {
 public:
  virtual ~Collective() = default;
  // Every pair that the pattern ever uses: the queue pairs it needs.
  virtual std::vector<Transfer> pairs() const = 0;
  // Starts an iteration; the messages that can go at once.
  virtual std::vector<Transfer> begin() = 0;
  // A message arrived whole, or was acknowledged whole; what can go now.
  virtual std::vector<Transfer> on_received(const Transfer& message) = 0;
  virtual std::vector<Transfer> on_acknowledged(const Transfer& message) = 0;
  // Every rank holds everything and knows that its own messages arrived.
  virtual bool finished() const = 0;
  // Messages each rank sends in one iteration.
  virtual int steps() const = 0;
};

// Ring: 2 (n - 1) steps, in each of which every rank sends to its right; a rank sends the next
// piece when it holds the one from its left. All-to-all: n - 1 steps; in step s every rank sends to
// the rank s to its right and goes on when that arrived and its own from s to its left did.
std::unique_ptr<Collective> make_collective(Pattern pattern, int ranks);

}  // namespace heddle::lab
