// What one packet sample costs the agent once the kernel has handed it over: the message read, the
// RoCE headers read, the subflow found and its estimate added to. And what a reading of so many
// subflows costs.
#include <benchmark/benchmark.h>

#include <chrono>
#include <vector>

#include "agent/observe/sampled_flows.h"
#include "tests/agent/observe/psample_builder.h"

namespace heddle {
namespace {

constexpr Time kNow{std::chrono::seconds(1)};

std::vector<test::Octets> samples_of(std::uint32_t flows) {
  std::vector<test::Octets> messages;
  for (std::uint32_t i = 0; i < flows; ++i)
    messages.push_back(
        test::psample_message(
            {.out_port = 4, .sequence = i},
            test::roce_frame({.dest_qpn = i, .opcode = 0x06, .message_length = 1U << 20U}))
            .bytes());
  return messages;
}

SampledFlows watching() {
  SampledFlows flows;
  flows.watch({{4, "up1"}}, {});
  return flows;
}

void OneSample(benchmark::State& state) {
  const auto messages = samples_of(static_cast<std::uint32_t>(state.range(0)));
  SampledFlows flows = watching();
  std::size_t next = 0;
  for (auto _ : state) {
    if (const auto sample = parse_sample(messages[next]))
      flows.add(*sample, kNow);
    next = next + 1 == messages.size() ? 0 : next + 1;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(OneSample)->Arg(64)->Arg(1'000)->Arg(10'000);

void OneReading(benchmark::State& state) {
  const auto messages = samples_of(static_cast<std::uint32_t>(state.range(0)));
  SampledFlows flows = watching();
  for (auto _ : state) {
    state.PauseTiming();
    for (const test::Octets& message : messages)
      flows.add(*parse_sample(message), kNow);
    state.ResumeTiming();
    benchmark::DoNotOptimize(flows.read(kNow));
  }
}
BENCHMARK(OneReading)->Arg(1'000)->Arg(10'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace heddle
