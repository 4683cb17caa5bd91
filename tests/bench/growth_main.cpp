// How the heddle scheme grows in the exact case: processor time at 2,048, 16,384 and 131,072
// subflows, the exponent fitted to them (1 is linear), and the most memory a solve holds at once,
// for each subflow beyond its input (its result counts). Then a job of 64 NICs that comes to 1,984
// on a fabric with just room for it: its part of a full solve, how many others move, and how many
// of these gave way to nobody. Exits with 1 if a limit is missed: 1, 8 and 100 ms, an exponent of
// 1.2, 200 bytes, a tenth of a solve, nobody.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <new>
#include <set>

#include "common/core/heddle_session.h"
#include "tests/common/core/fabrics.h"

namespace {

std::size_t in_use = 0;
std::size_t most_in_use = 0;

}  // namespace

// Every allocation of this program is counted, with its size kept in front of it.
void* operator new(std::size_t size) {
  auto* block = static_cast<std::max_align_t*>(std::malloc(size + sizeof(std::max_align_t)));
  if (block == nullptr)
    throw std::bad_alloc();
  *reinterpret_cast<std::size_t*>(block) = size;
  in_use += size;
  most_in_use = std::max(most_in_use, in_use);
  return block + 1;
}
void operator delete(void* pointer) noexcept {
  if (pointer == nullptr)
    return;
  auto* block = static_cast<std::max_align_t*>(pointer) - 1;
  in_use -= *reinterpret_cast<std::size_t*>(block);
  std::free(block);
}
void operator delete(void* pointer, std::size_t) noexcept {
  operator delete(pointer);
}

namespace heddle {
namespace {

using namespace heddle::testing;

struct Measured {
  double subflows{};
  double milliseconds{};
  double bytes{};
};

Measured measure(const FabricShape& shape, int repeats) {
  const Topology fabric = make_fabric(shape);
  const LinkState links(fabric);
  std::mt19937_64 random(1);
  const std::uint32_t each = shape.nics * shape.leaves > 2048 || repeats < 100 ? 8 : 1;
  Problem problem = problem_of(fabric, links,
                               ring_jobs(
                                   fabric, random, [](auto& r) { return 4 + r() % 253; }, each));
  problem.unit_of_subflow = by_queue_pair(problem.demand);
  const auto optimiser = make_optimiser("heddle");
  const std::size_t before = in_use;
  most_in_use = in_use;
  const std::clock_t begin = std::clock();
  for (int i = 0; i < repeats; ++i)
    if (!optimiser->place(problem, 1).proven)
      std::abort();
  const auto subflows = static_cast<double>(problem.demand.subflow_count());
  return {
      .subflows = subflows,
      .milliseconds = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / repeats,
      .bytes = static_cast<double>(most_in_use - before) / subflows};
}

// The quickest of all jobs' arrivals, each the first of its session, beside the quickest solve.
bool arrive() {
  using Clock = std::chrono::steady_clock;
  const auto milliseconds = [](Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  };
  const Topology fabric = make_fabric({.leaves = 64, .spines = 32, .nics = 32});
  const LinkState links(fabric);
  std::mt19937_64 random(64);
  const Problem problem =
      problem_of(fabric, links, ring_jobs(fabric, random, [](auto&) { return 64; }));
  const auto optimiser = make_optimiser("heddle");
  double solve = 1e9, arrival = 1e9;
  std::size_t moves = 0, outside = 0;
  for (std::uint32_t job = 0; job < 32; ++job) {
    auto begin = Clock::now();
    if (!optimiser->place(problem, 1).proven)
      std::abort();
    solve = std::min(solve, milliseconds(begin));
    std::vector<bool> running(32, true);
    running[job] = false;
    HeddleSession session(problem, running);
    const Routing before = session.routing();
    begin = Clock::now();
    const std::vector<std::uint32_t> moved = session.start({job});
    arrival = std::min(arrival, milliseconds(begin));
    const Routing after = session.routing();
    std::set<CableId> ups, downs;  // that somebody has taken
    for (std::uint32_t s = 0; s < after.size(); ++s)
      if (after[s].crosses_core() && before[s] != after[s]) {
        ups.insert(after[s].up);
        downs.insert(after[s].down);
      }
    moves += moved.size();
    outside += static_cast<std::size_t>(std::ranges::count_if(moved, [&](std::uint32_t s) {
      return !ups.contains(before[s].up) && !downs.contains(before[s].down);
    }));
  }
  fmt::print(
      "64 NICs arriving among 2,048: {:.3f} ms, {:.1f} % of a full solve of {:.3f} ms; {} others "
      "move, {} of them outside what it touches\n",
      arrival, 100.0 * arrival / solve, solve, moves / 32, outside);
  return 10.0 * arrival <= solve && outside == 0;
}

}  // namespace
}  // namespace heddle

int main() {
  using heddle::Measured;
  const std::vector<Measured> all{
      heddle::measure({.leaves = 64, .spines = 32, .nics = 32}, 200),
      heddle::measure({.leaves = 64, .spines = 32, .nics = 32}, 40),
      heddle::measure({.leaves = 512, .spines = 64, .nics = 32}, 10),
  };
  constexpr double kMostMilliseconds[] = {1, 8, 100};
  bool kept = true;
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const Measured& m : all) {
    const double most = kMostMilliseconds[&m - all.data()];
    fmt::print("{:>7.0f} subflows: {:8.3f} ms of {:.0f}, {:4.0f} bytes a subflow of 200\n",
               m.subflows, m.milliseconds, most, m.bytes);
    kept = kept && m.milliseconds <= most && m.bytes <= 200.0;
    const double a = std::log(m.subflows), b = std::log(m.milliseconds);
    x += a;
    y += b;
    xx += a * a;
    xy += a * b;
  }
  const auto n = static_cast<double>(all.size());
  const double exponent = (n * xy - x * y) / (n * xx - x * x);
  fmt::print("exponent {:.3f}\n", exponent);
  kept = heddle::arrive() && kept && exponent <= 1.2;
  fmt::print("{}\n", kept ? "every limit was kept" : "A LIMIT WAS MISSED");
  return kept ? 0 : 1;
}
