// A sweep's rows as text: JSON for programs, CSV for spreadsheets, a table for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "coordinator/simulate/cell.h"
#include "coordinator/simulate/sweep.h"

namespace heddle::sim {

struct OutputOptions {
  // Solver times are measurements and differ from run to run. Without them the bytes are the same
  // on every machine and with any number of threads.
  bool times{true};
  bool epochs{false};  // every epoch in the JSON, not only their number
};

// A list with one object for each row; the keys are documented in heddle(1).
std::string to_json(const std::vector<Row>& rows, const OutputOptions& options);
std::string to_csv(const std::vector<Row>& rows, const OutputOptions& options);

// One line for each scheme and place in the grid, its seeds together: the least worst, the mean of
// the means, the largest of the largest.
struct Summary {
  std::string scheme{};
  Coordinates at{};  // seed: how many there are
  double worst{1.0};
  double mean{};
  std::uint32_t max_on_link{};
  std::uint32_t bound_max_on_link{};
  double percent_of_bound{100.0};
  double allreduce_ms{};
  double completion_p99_ms{};
  double solver_p50_ms{};
  double solver_max_ms{};
  double warm_p50_ms{};
  std::uint64_t moves{};
  bool over_time{};  // whether there are completion times, moves and warm times at all
  bool proven{true};
};
std::vector<Summary> summarise(const std::vector<Row>& rows);

struct TableText {
  std::vector<std::string> titles{};
  std::vector<std::vector<std::string>> rows{};
};
TableText table_of(const std::vector<Summary>& summaries, const OutputOptions& options);
std::string aligned(const TableText& table);

// The verdicts and the notes, a line each.
std::vector<std::string> findings(const Sweep& sweep);

}  // namespace heddle::sim
