#include "coordinator/predict/prediction.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace heddle {

namespace {

// Weights nearer to each other than this are one: what differs less is when the counters were read.
constexpr double kEqualWithin = 1.25;
// What was grouped stays so until a weight is farther than this from its group's.
constexpr double kLeavesBeyond = 1.5;
// A job's weights count once its flows have been watched for so many intervals.
constexpr std::uint64_t kIntervalsToWeigh = 8;

using Subflows = std::vector<const Subflow*>;

// Queue pairs of a training run that ended are remembered for a while beside those of the one that
// followed. What fell silent before another queue pair of the same NICs appeared was replaced by
// it.
void drop_replaced(Subflows& subflows) {
  Time newest = subflows.front()->appeared;
  for (const Subflow* flow : subflows)
    newest = std::max(newest, flow->appeared);
  std::erase_if(subflows, [&](const Subflow* flow) {
    return flow->appeared < newest && flow->last_active < newest;
  });
}

// Hosts as disjoint sets.
class Components {
 public:
  explicit Components(std::size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0U); }
  std::uint32_t find(std::uint32_t i) {
    while (parent_[i] != i)
      i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  // The smaller host names the set, so that names do not depend on the order of flows.
  void join(std::uint32_t a, std::uint32_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::uint32_t> parent_;
};

struct Declared {
  std::set<HostId> hosts;
  std::uint32_t index{};
};

std::vector<Declared> resolve(const Topology& topology, std::span<const JobDeclaration> declared) {
  std::vector<Declared> jobs;
  for (std::uint32_t i = 0; i < declared.size(); ++i) {
    Declared job{.hosts = {}, .index = i};
    for (const std::string& name : declared[i].hosts)
      if (const std::optional<HostId> host = topology.find_host(name))
        job.hosts.insert(*host);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::optional<std::uint32_t> declared_job(const std::vector<Declared>& jobs, HostId a, HostId b) {
  for (const Declared& job : jobs)
    if (job.hosts.contains(a) && job.hosts.contains(b))
      return job.index;
  return std::nullopt;
}

// The weights that a job's flows had in the prediction before, if all are still near them. Grouped
// anew, a weight at a group's edge would be in another one every now and then, and flows would move
// though nothing changed.
bool keep_weights(const std::vector<std::pair<double, std::size_t>>& weights,
                  const std::string& job, const Prediction& before, Demand& demand) {
  const auto same = std::ranges::find(before.jobs, job, &PredictedJob::name);
  if (same == before.jobs.end() || !same->weights_known)
    return false;
  const auto number = static_cast<std::uint32_t>(same - before.jobs.begin());
  std::map<std::pair<NicId, NicId>, double> known;
  for (const FlowDemand& flow : before.demand.flows)
    if (flow.job.value == number)
      known[{flow.source, flow.destination}] = flow.weight;
  std::vector<double> kept;
  for (const auto& [weight, i] : weights) {
    const auto old = known.find({demand.flows[i].source, demand.flows[i].destination});
    if (old == known.end() || weight > old->second * kLeavesBeyond ||
        old->second > weight * kLeavesBeyond)
      return false;
    kept.push_back(old->second);
  }
  for (std::size_t k = 0; k < kept.size(); ++k)
    demand.flows[weights[k].second].weight = kept[k];
  return true;
}

// Bytes of a period, where all flows of a job were watched long enough and keep one period. Without
// a period, bytes only say what a flow got: a flow that shares a link would weigh less for it, and
// be left there.
void weigh(const FlowTable& table, Prediction& prediction, const std::vector<Subflows>& members,
           const Prediction* before) {
  std::vector<std::vector<std::size_t>> by_job(prediction.jobs.size());
  for (std::size_t i = 0; i < prediction.demand.flows.size(); ++i)
    by_job[prediction.demand.flows[i].job.value].push_back(i);
  for (std::size_t j = 0; j < by_job.size(); ++j) {
    std::vector<std::pair<double, std::size_t>> weights;
    bool known = true;
    std::optional<Duration> period;
    bool periodic = true;
    for (const std::size_t i : by_job[j]) {
      double bytes = 0;
      for (const Subflow* flow : members[i]) {
        const auto volume = table.volume(*flow);
        const std::uint64_t watched =
            flow->sightings.empty()
                ? 0
                : flow->sightings.front().last_ordinal - flow->sightings.front().first_ordinal;
        if (!volume || volume->length <= Duration::zero() || watched < kIntervalsToWeigh) {
          known = false;
          continue;
        }
        // Per second, as flows may have been watched for different times.
        bytes += static_cast<double>(volume->bytes.value) /
                 std::chrono::duration<double>(volume->length).count();
        if (!flow->period ||
            (period && (*flow->period > *period * 5 / 4 || *flow->period < *period * 4 / 5)))
          periodic = false;
        else if (!period)
          period = flow->period;
      }
      weights.emplace_back(bytes, i);
      known = known && bytes > 0;
    }
    PredictedJob& job = prediction.jobs[j];
    if (periodic)
      job.period = period;
    job.weights_known = known && job.period;
    if (!job.weights_known)
      continue;
    const double seconds = std::chrono::duration<double>(*job.period).count();
    for (auto& [weight, flow] : weights)
      weight *= seconds;
    if (before != nullptr && keep_weights(weights, job.name, *before, prediction.demand))
      continue;
    // Groups of nearly equal weights, from the smallest up, each weighing its mean.
    std::ranges::sort(weights);
    for (std::size_t begin = 0; begin < weights.size();) {
      std::size_t end = begin;
      double sum = 0;
      while (end < weights.size() && weights[end].first <= weights[begin].first * kEqualWithin)
        sum += weights[end++].first;
      for (std::size_t k = begin; k < end; ++k)
        prediction.demand.flows[weights[k].second].weight = sum / static_cast<double>(end - begin);
      begin = end;
    }
  }
}

}  // namespace

Prediction predict(const Topology& topology, const FlowTable& table,
                   std::span<const JobDeclaration> declared, const Prediction* before) {
  Prediction prediction;
  std::map<std::pair<NicId, NicId>, Subflows> pairs;
  for (const auto& [key, flow] : table.subflows()) {
    if (!flow.elephant)
      continue;
    if (!flow.source.valid() || !flow.destination.valid() || flow.source == flow.destination) {
      ++prediction.outside;
      continue;
    }
    pairs[{flow.source, flow.destination}].push_back(&flow);
  }

  const std::vector<Declared> known = resolve(topology, declared);
  Components components(topology.hosts().size());
  std::vector<std::optional<std::uint32_t>> declaration;  // by pair
  for (auto& [nics, subflows] : pairs) {
    drop_replaced(subflows);
    const HostId from = topology[nics.first].host;
    const HostId to = topology[nics.second].host;
    declaration.push_back(declared_job(known, from, to));
    if (!declaration.back())
      components.join(from.value, to.value);
  }

  std::vector<JobId> job_of_declaration(declared.size());
  std::vector<JobId> job_of_component(topology.hosts().size());
  std::vector<std::vector<HostId>> hosts;
  std::vector<Subflows> members;
  auto next_declaration = declaration.begin();
  for (auto& [nics, subflows] : pairs) {
    const std::optional<std::uint32_t> index = *next_declaration++;
    const HostId from = topology[nics.first].host;
    const HostId to = topology[nics.second].host;
    const std::uint32_t component = components.find(from.value);
    JobId& job = index ? job_of_declaration[*index] : job_of_component[component];
    if (!job.valid()) {
      job = {static_cast<std::uint32_t>(prediction.jobs.size())};
      const std::string name =
          index ? declared[*index].name : "auto-" + topology[HostId{component}].name;
      prediction.jobs.push_back({.name = name, .declared = index.has_value()});
      prediction.demand.jobs.push_back({.name = name});
      hosts.emplace_back();
    }
    hosts[job.value].push_back(from);
    hosts[job.value].push_back(to);
    PredictedFlow flow;
    flow.entry = subflows.front()->entry;
    for (const Subflow* subflow : subflows) {
      flow.subflows.push_back(subflow->key);
      flow.observed.push_back(subflow->observed_up);
    }
    prediction.demand.flows.push_back({.job = job,
                                       .source = nics.first,
                                       .destination = nics.second,
                                       .subflows = static_cast<std::uint32_t>(subflows.size())});
    prediction.flows.push_back(std::move(flow));
    members.push_back(std::move(subflows));
  }
  for (std::size_t j = 0; j < hosts.size(); ++j) {
    std::ranges::sort(hosts[j]);
    hosts[j].erase(std::unique(hosts[j].begin(), hosts[j].end()), hosts[j].end());
    for (const HostId host : hosts[j])
      prediction.jobs[j].hosts.push_back(topology[host].name);
    std::ranges::sort(prediction.jobs[j].hosts);
  }
  weigh(table, prediction, members, before);
  return prediction;
}

std::uint64_t demand_signature(const Prediction& prediction) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte, value >>= 8)
      hash = (hash ^ (value & 0xff)) * 0x100000001b3;
  };
  for (const FlowDemand& flow : prediction.demand.flows) {
    mix(flow.source.value);
    mix(flow.destination.value);
    mix(flow.subflows);
    mix(flow.job.value);
  }
  for (const PredictedJob& job : prediction.jobs)
    for (const char c : job.name)
      mix(static_cast<unsigned char>(c));
  return hash;
}

}  // namespace heddle
