// Generated workloads, so that a sweep needs no files of other people. Same spec, same fabric, same
// seed: same workload; and the first k jobs are the same whatever number was asked for. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"
#include "common/core/topology.h"
#include "coordinator/simulate/collectives.h"
#include "coordinator/simulate/placement.h"
#include "coordinator/simulate/workload.h"

namespace heddle::sim {

struct Model {
  std::string_view name;
  double parameters{};
  std::uint32_t tensor{};    // GPUs that share a layer
  std::uint32_t pipeline{};  // stages
  Duration compute{};        // of one iteration
};
// GPT_3, BLOOM, LLaMA2_70B; sizes and times are those in the public job files.
const std::vector<Model>& models();
std::optional<Model> model_named(std::string_view name);

enum class Communication : std::uint8_t { ring, halving_doubling, all_to_all, pipeline, mixed };
std::optional<Communication> communication_named(std::string_view name);

struct PresetSpec {
  // "paper": jobs of random models with rings of `data` copies. "hard-equal", "hard-unequal": jobs
  // of 4 to 256 NICs, anywhere, until the fabric is full. "model": jobs of one model.
  std::string name{"paper"};
  std::uint32_t jobs{5};  // 0: as many as fit
  std::uint64_t seed{1};
  std::uint32_t data{2};  // copies of the model, which is the size of the rings
  // For "model":
  std::string model{"GPT_3"};
  std::uint32_t tensor{0};    // 0: the model's own
  std::uint32_t pipeline{0};  // 0: the model's own
  Communication communication{Communication::ring};
  Placement placement{Placement::slices};
};

std::vector<std::string_view> preset_names();

// Errc::invalid_argument for an unknown name or model, and where not one job fits into the fabric.
// Fewer jobs than asked for are made if no more fit.
Result<Workload> make_preset(const PresetSpec& spec, const Topology& topology);

}  // namespace heddle::sim
