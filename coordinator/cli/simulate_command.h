// `heddle simulate`: what was typed, as a value, and running it. Needs no coordinator. One thread
// here; the sweep has its own.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "coordinator/simulate/output.h"
#include "coordinator/simulate/sweep.h"

namespace CLI {
class App;
}

namespace heddle {

struct Simulate {
  sim::SweepSpec spec{};
  sim::OutputOptions output{};
  // Files to write; empty: not asked for.
  std::string json{};
  std::string csv{};
  std::string report{};  // a folder
  std::string export_routing{};
  std::string import_routing{};  // judged instead of a sweep
};

void add_simulate(CLI::App& root, std::function<void(Simulate)> chosen);

struct SimulateSurroundings {
  std::ostream& out;
  std::ostream& err;
  bool terminal{};  // a progress bar is drawn on `err`
  bool json{};      // rows on `out` as JSON, not as a table
};

// The exit code. `arguments`: what was typed, for the report's command to repeat it.
int run_simulate(const Simulate& simulate, const std::vector<std::string>& arguments,
                 const SimulateSurroundings& at);

}  // namespace heddle
