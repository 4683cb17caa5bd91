// Where the public job files are, for the tests that read them; they are not part of the project.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "coordinator/simulate/fabric_generator.h"
#include "coordinator/simulate/paper_files.h"
#include "coordinator/simulate/presets.h"
#include "tests/tree.h"

namespace heddle::sim::testing {

inline std::optional<std::string> paper_folder(int ring) {
  const char* named = std::getenv("HEDDLE_DATA");
  const std::filesystem::path data =
      named != nullptr ? named : std::filesystem::path(HEDDLE_SOURCE_DIR) / "../shared/data";
  const auto folder = data / "paper-floodns" / ("ring" + std::to_string(ring));
  if (std::filesystem::is_directory(folder))
    return folder.string();
  std::printf("no folder %s: the test runs on generated jobs of the same kind\n", folder.c_str());
  return std::nullopt;
}

inline Topology fabric(const FabricSpec& spec = {}) {
  return *generate_fabric(spec);
}

// The public jobs, or generated ones.
inline Workload paper_jobs(int ring, const Topology& topology) {
  if (const auto folder = paper_folder(ring))
    return *load_paper_jobs(*folder);
  PresetSpec spec;
  spec.data = static_cast<std::uint32_t>(ring);
  return *make_preset(spec, topology);
}

}  // namespace heddle::sim::testing
