// The demonstration: heddle from the first observed packet to the last removed pin, on a fabric of
// namespaces, told as it goes. One thread; others belong to traffic, routing and the watch on the
// tables.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/core/result.h"
#include "common/core/units.h"
#include "tests/lab/cluster.h"
#include "tests/lab/demo_report.h"
#include "tests/lab/fabric.h"

namespace heddle::lab {

struct DemoOptions {
  FabricSpec fabric;
  std::filesystem::path programs;  // the folder of heddle, heddle-agent and heddle-coordinator
  std::string json;                // file to write; empty: none
  std::filesystem::path logs;  // folder for what the daemons said; empty: it goes with the fabric
  unsigned seed{1};
  int draws{10};
  LeafMode enforcer{LeafMode::port_tables};
  int queue_pairs{};  // of each flow; 0: as suits the enforcer
  bool keep{};
  Duration routing_delay{std::chrono::milliseconds(50)};
};

// The result, or why it could not come to one. The fabric is gone afterwards unless options.keep.
Result<DemoResult> run_demo(const DemoOptions& options);

}  // namespace heddle::lab
