// No machine here has per-queue-pair counters of bytes; what the kernel and mlx5 offer is taken
// from their UAPI headers.
#include "agent/observe/counter_binder.h"

#include <gtest/gtest.h>

#include "tests/agent/observe/rdma_builder.h"

namespace heddle {
namespace {

using test::connected;

const CounterBinder::Port kPort{3, 1};

std::vector<OptionalCounter> mlx5(bool on) {
  return {{"cc_rx_ce_pkts", 20, true},
          {"rdma_tx_bytes", 21, on},
          {"rdma_tx_packets", 22, on},
          {"rdma_rx_bytes", 23, false}};
}

RdmaLook look_at(std::vector<QueuePair> pairs, std::vector<QpCounter> counters = {}) {
  RdmaLook look;
  look.ports = {{.device = 3, .port = 1, .active = true, .ifindex = 5, .netdev = "eth0"}};
  look.queue_pairs = std::move(pairs);
  look.counters = std::move(counters);
  return look;
}

QpCounter counter(std::uint32_t id, std::vector<std::uint32_t> qpns, bool automatic = false) {
  return {.device = 3,
          .port = 1,
          .id = id,
          .automatic = automatic,
          .qpns = std::move(qpns),
          .values = {}};
}

std::vector<std::uint32_t> qpns(const std::vector<CounterBinder::Binding>& bindings) {
  std::vector<std::uint32_t> result;
  for (const auto& binding : bindings)
    result.push_back(binding.qpn);
  return result;
}

// A binder whose port has its byte counters on.
CounterBinder ready() {
  CounterBinder binder;
  binder.offers(kPort, mlx5(true));
  return binder;
}

TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, SwitchesOnTheByteCountersBesideThoseThatAreOn) {
  CounterBinder binder;
  binder.offers(kPort, mlx5(false));
  EXPECT_TRUE(binder.to_switch_on(look_at({})).empty()) << "not before they are of use";
  const RdmaLook look = look_at({connected(3, 178, 200, 9)});
  EXPECT_TRUE(binder.to_bind(look).empty()) << "not before they count";
  EXPECT_EQ(binder.to_switch_on(look), (std::vector<CounterBinder::Switch>{{kPort, {20, 21, 22}}}));
  binder.switched_on(kPort);
  EXPECT_TRUE(binder.to_switch_on(look).empty());
  EXPECT_EQ(qpns(binder.to_bind(look)), (std::vector<std::uint32_t>{178}));
}

TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, SafetyRule1SwitchesBackOnlyWhatItSwitchedOn) {
  CounterBinder binder;
  binder.offers(kPort, mlx5(false));
  binder.switched_on(kPort);
  // Meanwhile somebody has switched on 23.
  std::vector<OptionalCounter> now = mlx5(true);
  now[3].on = true;
  EXPECT_EQ(binder.switched(), std::vector{kPort});
  EXPECT_EQ(binder.back(kPort, now), (CounterBinder::Switch{kPort, {20, 23}}));
  EXPECT_TRUE(ready().switched().empty()) << "they were on before";
}

TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, SafetyRule1NeverTouchesACounterOfSomebodyElse) {
  CounterBinder binder = ready();
  const std::vector<QueuePair> pairs{connected(3, 178, 200, 9), connected(3, 179, 201, 9)};
  const RdmaLook look = look_at(pairs, {counter(4, {178})});
  EXPECT_EQ(qpns(binder.to_bind(look)), (std::vector<std::uint32_t>{179}));
  EXPECT_TRUE(binder.ours().empty());
  // In automatic mode the port is somebody else's as a whole.
  EXPECT_TRUE(binder.to_bind(look_at(pairs, {counter(1, {}, true)})).empty());
}

TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, LeavesInPeaceWhoUnbindsItsCounter) {
  CounterBinder binder = ready();
  const std::vector<QueuePair> pairs{connected(3, 178, 200, 9)};
  auto bindings = binder.to_bind(look_at(pairs));
  ASSERT_EQ(bindings.size(), 1U);
  bindings[0].counter = 6;
  binder.bound(bindings[0]);
  EXPECT_EQ(binder.ours(), bindings);
  EXPECT_TRUE(binder.to_bind(look_at(pairs, {counter(6, {178})})).empty());
  EXPECT_EQ(binder.ours(), bindings);
  EXPECT_TRUE(binder.to_bind(look_at(pairs)).empty());
  EXPECT_TRUE(binder.ours().empty());
  EXPECT_TRUE(binder.to_bind(look_at(pairs)).empty());
}

// What was not read may be there all the same: ours stay ours, and who has a counter is not known.
TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, SafetyRule1CountersThatWereNotReadAreNotGone) {
  CounterBinder binder = ready();
  const std::vector<QueuePair> pairs{connected(3, 178, 200, 9), connected(3, 179, 201, 9)};
  binder.bound({.port = kPort, .qpn = 178, .counter = 6});
  RdmaLook unread = look_at(pairs);
  unread.uncounted = {3};
  EXPECT_TRUE(binder.to_bind(unread).empty()) << "179 may have a counter of somebody else's";
  EXPECT_EQ(qpns(binder.ours()), (std::vector<std::uint32_t>{178}));
  // The next look is whole again.
  EXPECT_EQ(qpns(binder.to_bind(look_at(pairs, {counter(6, {178})}))),
            (std::vector<std::uint32_t>{179}));
  EXPECT_EQ(qpns(binder.ours()), (std::vector<std::uint32_t>{178}));
  // A queue pair that ended took its binding along, whatever was read of counters.
  RdmaLook ended = look_at({});
  ended.uncounted = {3};
  binder.to_bind(ended);
  EXPECT_TRUE(binder.ours().empty());
}

// Somebody took our counter away and bound one of his own, between two looks.
TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, SafetyRule1AnotherCounterIsSomebodyElses) {
  CounterBinder binder = ready();
  binder.bound({.port = kPort, .qpn = 178, .counter = 6});
  binder.to_bind(look_at({connected(3, 178, 200, 9)}, {counter(7, {178})}));
  EXPECT_TRUE(binder.ours().empty());
}

// The kernel did not answer whether it bound 178 and 179. It bound the first.
TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, SafetyRule1FindsOutWhatBecameOfALostAnswer) {
  CounterBinder binder = ready();
  const std::vector<QueuePair> pairs{connected(3, 178, 200, 9), connected(3, 179, 201, 9)};
  for (const auto& binding : binder.to_bind(look_at(pairs)))
    binder.perhaps_bound(binding);
  EXPECT_TRUE(binder.unsure());
  EXPECT_TRUE(binder.ours().empty());
  RdmaLook unread = look_at(pairs);
  unread.uncounted = {3};
  EXPECT_TRUE(binder.to_bind(unread).empty());
  EXPECT_TRUE(binder.unsure());
  EXPECT_EQ(qpns(binder.to_bind(look_at(pairs, {counter(6, {178})}))),
            (std::vector<std::uint32_t>{179}));
  EXPECT_FALSE(binder.unsure());
  EXPECT_EQ(binder.ours(),
            (std::vector<CounterBinder::Binding>{{.port = kPort, .qpn = 178, .counter = 6}}));
}

TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, SafetyRule1SwitchesBackWhatItPerhapsSwitchedOn) {
  CounterBinder binder;
  binder.offers(kPort, mlx5(false));
  const RdmaLook look = look_at({connected(3, 178, 200, 9)});
  binder.perhaps_switched(kPort);
  EXPECT_EQ(binder.to_switch_on(look).size(), 1U) << "asked for again";
  EXPECT_EQ(binder.back(kPort, mlx5(true)), (CounterBinder::Switch{kPort, {20}}));
  binder.not_switched(kPort);
  EXPECT_TRUE(binder.switched().empty()) << "refused: whoever switched it on now, we did not";
}

TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, ForgetsQueuePairsThatEnded) {
  CounterBinder binder = ready();
  const RdmaLook look = look_at({connected(3, 178, 200, 9)});
  binder.bound(binder.to_bind(look).at(0));
  binder.to_bind(look_at({}));
  EXPECT_TRUE(binder.ours().empty());
  EXPECT_EQ(qpns(binder.to_bind(look)), (std::vector<std::uint32_t>{178})) << "its successor";
}

TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, BindsFewAtOnceAndNoneThatWasRefused) {
  CounterBinder binder = ready();
  std::vector<QueuePair> pairs;
  for (std::uint32_t i = 0; i < 100; ++i)
    pairs.push_back(connected(3, 1000 + i, 5000 + i, 9));
  const auto first = binder.to_bind(look_at(pairs));
  ASSERT_EQ(first.size(), CounterBinder::kMostAtOnce);
  for (const auto& binding : first)
    binder.refused(binding);
  const auto second = binder.to_bind(look_at(pairs));
  ASSERT_EQ(second.size(), CounterBinder::kMostAtOnce);
  EXPECT_EQ(second[0].qpn, 1000 + CounterBinder::kMostAtOnce);
}

TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, BindsNothingWithoutCountersOfBytes) {
  CounterBinder binder;
  binder.offers(kPort, {{"cc_rx_ce_pkts", 20, true}});
  const RdmaLook look = look_at({connected(3, 178, 200, 9)});
  EXPECT_TRUE(binder.to_switch_on(look).empty());
  EXPECT_TRUE(binder.to_bind(look).empty());
}

TEST(CounterBinderAsSynthesisedFromTheUapiHeaders, BindsNeitherTheKernelsNorUnconnectedQueuePairs) {
  CounterBinder binder = ready();
  QueuePair open = connected(3, 178, 200, 9);
  open.remote_qpn.reset();
  EXPECT_TRUE(binder.to_bind(look_at({open, connected(3, 179, 201, 0)})).empty());
}

}  // namespace
}  // namespace heddle
