#include "coordinator/simulate/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "coordinator/simulate/random.h"

namespace heddle::sim {
namespace {

constexpr double kBytesPerParameter = 4.0;
constexpr std::int64_t kLatestStartNs = 10'000'000'000;
// One microbatch's activations between two stages: 2,048 tokens of 12,288 values of two bytes.
constexpr double kActivationBytes = 2048.0 * 12288.0 * 2.0;
constexpr std::uint32_t kMicrobatches = 8;
constexpr double kHardBytes = 1e9;
constexpr std::uint32_t kMostJobs = 4096;
constexpr std::uint64_t kMostFlows = 1U << 22;

struct Shape {
  Model model;
  std::uint32_t data{};
  Communication communication{Communication::ring};
  Placement placement{Placement::slices};
};

// The copies of the model, one after the other, each with its NICs in the order tensor, then
// pipeline.
std::optional<std::vector<NicId>> place_copies(const Shape& shape, NicPool& pool, Random& random) {
  const std::uint32_t size = shape.model.tensor * shape.model.pipeline;
  NicPool trial = pool;  // so that a job that does not fit takes nothing
  std::vector<NicId> nics;
  for (std::uint32_t copy = 0; copy < shape.data; ++copy) {
    const auto taken = trial.take(size, shape.placement, random);
    if (!taken)
      return std::nullopt;
    nics.insert(nics.end(), taken->begin(), taken->end());
  }
  pool = std::move(trial);
  return nics;
}

// Whether the fabric, all of it free, has NICs enough; counted in numbers that no input overflows.
bool can_fit(const Shape& shape, const Topology& topology) {
  const std::uint64_t nics = topology.nics().size();
  const std::uint64_t size = std::uint64_t{shape.model.tensor} * shape.model.pipeline;
  return size <= nics && shape.data <= nics / size;
}

// Adds what the collectives of one kind send; all groups of a step run at once and share the phases
// from `phase`.
std::uint32_t add_communication(CollectiveBuilder& builder, const Shape& shape, Communication kind,
                                const std::vector<NicId>& nics, std::uint32_t phase) {
  const Model& model = shape.model;
  const std::uint32_t size = model.tensor * model.pipeline;
  const double gradient = kBytesPerParameter * model.parameters / size;
  std::uint32_t used = 0;
  if (kind == Communication::pipeline) {
    for (std::uint32_t copy = 0; copy < shape.data; ++copy) {
      for (std::uint32_t t = 0; t < model.tensor; ++t) {
        std::vector<NicId> stages;
        for (std::uint32_t p = 0; p < model.pipeline; ++p)
          stages.push_back(nics[copy * size + p * model.tensor + t]);
        used = std::max(
            used, builder.pipeline(stages, kActivationBytes / model.tensor, kMicrobatches, phase));
      }
    }
    return used;
  }
  for (std::uint32_t position = 0; position < size; ++position) {
    std::vector<NicId> members;
    for (std::uint32_t copy = 0; copy < shape.data; ++copy)
      members.push_back(nics[copy * size + position]);
    if (kind == Communication::ring)  // whole bytes, as in the job files
      used =
          std::max(used, builder.ring_of_parts(members, std::ceil(gradient / shape.data), phase));
    else if (kind == Communication::halving_doubling)
      used = std::max(used, builder.halving_doubling(members, gradient, phase));
    else
      used = std::max(used, builder.all_to_all(members, kActivationBytes, phase));
  }
  return used;
}

SimJob make_job(const std::string& name, const Shape& shape, const std::vector<NicId>& nics,
                Duration start) {
  SimJob job{.name = name, .start = start};
  CollectiveBuilder builder(job);
  if (shape.communication != Communication::mixed) {
    job.iteration.push_back({.compute = shape.model.compute});
    add_communication(builder, shape, shape.communication, nics, 0);
    return job;
  }
  std::uint32_t phase = 0;
  for (const Communication kind :
       {Communication::pipeline, Communication::all_to_all, Communication::ring}) {
    job.iteration.push_back({.compute = shape.model.compute / 3});
    phase += add_communication(builder, shape, kind, nics, phase);
  }
  return job;
}

// An all-to-all has as many flows as there are pairs of members.
bool too_many_flows(const Shape& shape) {
  const bool all_to_all = shape.communication == Communication::all_to_all ||
                          shape.communication == Communication::mixed;
  const std::uint64_t nics = std::uint64_t{shape.model.tensor} * shape.model.pipeline * shape.data;
  return all_to_all && nics * shape.data > kMostFlows;
}

Result<Workload> make_model_jobs(const PresetSpec& spec, const Topology& topology) {
  const bool paper = spec.name == "paper";
  std::optional<Model> model = model_named(spec.model);
  if (!paper && !model)
    return fail(Errc::invalid_argument, fmt::format("no model is called '{}'", spec.model));
  Workload workload{.name = fmt::format("{}-data{}", paper ? spec.name : spec.model, spec.data)};
  NicPool pool(topology);
  Random random(spec.seed);
  const std::uint32_t wanted = spec.jobs == 0 ? kMostJobs : spec.jobs;
  while (workload.jobs.size() < wanted) {
    std::vector<Model> candidates = paper ? models() : std::vector<Model>{*model};
    if (paper)
      random.shuffle(candidates);
    const Duration start(static_cast<std::int64_t>(random.below(kLatestStartNs)));
    bool placed = false;
    for (const Model& candidate : candidates) {
      Shape shape{.model = candidate, .data = spec.data};
      if (!paper) {
        shape.communication = spec.communication;
        shape.placement = spec.placement;
        shape.model.tensor = spec.tensor == 0 ? candidate.tensor : spec.tensor;
        shape.model.pipeline = spec.pipeline == 0 ? candidate.pipeline : spec.pipeline;
      }
      if (!can_fit(shape, topology))
        continue;
      if (too_many_flows(shape))
        return fail(Errc::invalid_argument,
                    fmt::format("an all-to-all of {} copies has more than {} flows", shape.data,
                                kMostFlows));
      const auto nics = place_copies(shape, pool, random);
      if (!nics)
        continue;
      const std::string name = fmt::format("job_{}-{}", workload.jobs.size(), candidate.name);
      workload.jobs.push_back(make_job(name, shape, *nics, start));
      placed = true;
      break;
    }
    if (!placed)
      break;
  }
  if (workload.jobs.empty())
    return fail(Errc::invalid_argument, fmt::format("not one job of preset '{}' fits into {} NICs",
                                                    spec.name, topology.nics().size()));
  return workload;
}

// A ring through NICs that lie anywhere, each sending once: equal bytes, or each flow its own part
// of them. A weight for a whole job would change nothing, because efficiency is relative to what
// the job could get.
Result<Workload> make_hard_jobs(const PresetSpec& spec, const Topology& topology) {
  constexpr std::array kSizes{4U, 8U, 16U, 32U, 64U, 128U, 256U};
  Workload workload{.name = spec.name};
  NicPool pool(topology);
  Random random(spec.seed);
  const std::uint32_t wanted = spec.jobs == 0 ? kMostJobs : spec.jobs;
  while (workload.jobs.size() < wanted && pool.free() >= kSizes.front()) {
    const std::uint32_t size = std::min(kSizes[random.below(kSizes.size())], pool.free());
    const auto nics = pool.take(size, Placement::random, random);
    SimJob job{.name = fmt::format("job_{}-{}nics", workload.jobs.size(), size)};
    Round round;
    for (std::uint32_t i = 0; i < size; ++i) {
      const double part =
          spec.name == "hard-unequal" ? static_cast<double>(1 + random.below(4)) / 4.0 : 1.0;
      round.transfers.push_back({i, kHardBytes * part});
      job.flows.push_back({(*nics)[i], (*nics)[(i + 1) % size]});
    }
    job.iteration.push_back(
        {.compute = std::chrono::seconds(1), .groups = {{.rounds = {std::move(round)}}}});
    workload.jobs.push_back(std::move(job));
  }
  if (workload.jobs.empty())
    return fail(Errc::invalid_argument,
                fmt::format("not one job fits into {} NICs", topology.nics().size()));
  return workload;
}

}  // namespace

const std::vector<Model>& models() {
  static const std::vector<Model> list{
      {"GPT_3", 175e9, 8, 8, Duration(1'009'615'385)},
      {"BLOOM", 176e9, 4, 12, Duration(1'238'769'231)},
      {"LLaMA2_70B", 70e9, 8, 16, Duration(2'692'307'693)},
  };
  return list;
}

std::optional<Model> model_named(std::string_view name) {
  const auto it = std::ranges::find(models(), name, &Model::name);
  return it == models().end() ? std::nullopt : std::optional(*it);
}

std::optional<Communication> communication_named(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Communication>, 5> kNames{{
      {"ring", Communication::ring},
      {"halving-doubling", Communication::halving_doubling},
      {"all-to-all", Communication::all_to_all},
      {"pipeline", Communication::pipeline},
      {"mixed", Communication::mixed},
  }};
  for (const auto& [text, kind] : kNames)
    if (text == name)
      return kind;
  return std::nullopt;
}

std::vector<std::string_view> preset_names() {
  return {"paper", "hard-equal", "hard-unequal", "model"};
}

Result<Workload> make_preset(const PresetSpec& spec, const Topology& topology) {
  if (spec.data < 2)
    return fail(Errc::invalid_argument, "data parallelism needs at least two copies");
  if (spec.name == "hard-equal" || spec.name == "hard-unequal")
    return make_hard_jobs(spec, topology);
  if (spec.name == "paper" || spec.name == "model")
    return make_model_jobs(spec, topology);
  return fail(Errc::invalid_argument, fmt::format("no preset is called '{}'", spec.name));
}

}  // namespace heddle::sim
