// The grid of `heddle simulate`: every cell under every scheme, in parallel on the cores, with
// results in an order, and of a content, that the number of threads does not change. Threads live
// only inside run_sweep.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/core/result.h"
#include "coordinator/simulate/cell.h"
#include "coordinator/simulate/fabric_generator.h"

namespace heddle::sim {

struct SweepSpec {
  std::vector<std::string> job_folders{};  // public job files; if none, the preset
  PresetSpec preset{};
  std::vector<std::uint32_t> data{2};  // for presets: ring sizes, each a workload
  std::vector<std::string> schemes{};
  std::vector<std::uint32_t> concurrent{5};  // 0: all there are
  std::vector<std::uint32_t> spines_down{0};
  std::vector<double> links_down{0.0};
  std::vector<double> oversubscription{1.0};
  std::vector<std::uint32_t> qps{1};
  std::uint64_t seeds{1};     // 1 to this
  std::string fabric_file{};  // empty: generated from `fabric`
  FabricSpec fabric{};
  CellOptions cell{};
  unsigned threads{0};  // 0: as many as there are cores
};

struct Sweep {
  std::vector<Row> rows{};           // cell by cell, and in a cell scheme by scheme
  std::vector<std::string> notes{};  // what was left out, and why
};

// Called from any of the threads, one at a time.
using Progress = std::function<void(std::size_t done, std::size_t total)>;

// What a list repeats is taken once. Errc::invalid_argument, parse, not_found or io for what is
// wrong in the spec and the files that it names; Errc::unsupported for a cell that is too long
// (timeline.h).
Result<Sweep> run_sweep(const SweepSpec& asked, const Progress& progress);

// All that this program knows.
std::vector<std::string> all_schemes();

}  // namespace heddle::sim
