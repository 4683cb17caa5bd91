#include "coordinator/predict/open_pairs.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

using std::chrono::seconds;

const IpAddress kA = IpAddress::v4(10, 1, 1, 2);
const IpAddress kB = IpAddress::v4(10, 2, 1, 2);
const IpAddress kC = IpAddress::v4(10, 3, 1, 2);

TEST(OpenPairs, JoinsTheTwoEndsByTheirNumbers) {
  OpenPairs pairs;
  pairs.add("h1", {{kA, 178, 200, 11, "slurm:5.0", "cgroup"}}, Time{});
  pairs.add("h2", {{kB, 200, 178, 22}}, Time{});
  const auto [flows, alone] = pairs.join({});
  EXPECT_TRUE(alone.empty());
  ASSERT_EQ(flows.size(), 2U) << "one for each direction";
  const InferredFlow& there = flows.find({kA, kB, 51'986, 200})->second;
  EXPECT_EQ(there.node, "h1");
  EXPECT_EQ(there.pair.qpn, 178U);
  EXPECT_EQ(there.pair.pid, 11U);
  EXPECT_EQ(there.pair.label, "slurm:5.0");
  EXPECT_FALSE(there.ambiguous);
  EXPECT_EQ(flows.count({kB, kA, 51'986, 178}), 1U);
}

// The other end's host has no agent, or has not reported yet.
TEST(OpenPairs, SafetyRule7KeepOneWhoseOtherEndNobodyReports) {
  OpenPairs pairs;
  pairs.add("h1", {{kA, 178, 200, 11}}, Time{});
  const auto [flows, alone] = pairs.join({});
  EXPECT_TRUE(flows.empty()) << "one end alone says nothing of the other";
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0].node, "h1");
  EXPECT_EQ(alone[0].pair.address, kA);
  EXPECT_EQ(alone[0].pair.qpn, 178U);
  EXPECT_EQ(alone[0].pair.remote_qpn, 200U);
}

// The other end's machine saw its queue pair being connected to this one, so that one is not open.
// A third has the same numbers and another peer.
TEST(OpenPairs, JoinAnEndWhoseOtherEndKnowsIt) {
  OpenPairs pairs;
  pairs.add("h1", {{kA, 178, 200, 11}}, Time{});
  pairs.add("h4", {{kC, 200, 178, 44}}, Time{});
  const std::vector<KnownEnd> known{{kB, kA, 200, 178}, {kC, kB, 200, 178}};
  const auto [flows, alone] = pairs.join(known);
  const auto there = flows.find({kA, kB, 51'986, 200});
  ASSERT_NE(there, flows.end());
  EXPECT_FALSE(there->second.ambiguous);
  EXPECT_EQ(flows.count({kA, kC, 51'986, 200}), 0U);
}

// On two machines the number 200 was connected to 178.
TEST(OpenPairs, SaysWhereItCannotTell) {
  OpenPairs pairs;
  pairs.add("h1", {{kA, 178, 200, 11}}, Time{});
  pairs.add("h2", {{kB, 200, 178, 22}}, Time{});
  pairs.add("h3", {{kC, 200, 178, 33}}, Time{});
  for (const auto& [key, flow] : pairs.join({}).flows) {
    if (flow.node == "h1")
      EXPECT_TRUE(flow.ambiguous);
    else
      EXPECT_FALSE(flow.ambiguous) << "there is one pair that it may be connected to";
  }
}

// Soft-RoCE gives out the same numbers everywhere: 17 to 17 is its own other end.
TEST(OpenPairs, APairOfEqualNumbersIsNotItsOwnPeer) {
  OpenPairs pairs;
  pairs.add("h1", {{kA, 17, 17, 11}}, Time{});
  EXPECT_TRUE(pairs.join({}).flows.empty());
  pairs.add("h2", {{kB, 17, 17, 22}}, Time{});
  EXPECT_EQ(pairs.join({}).flows.size(), 2U);
}

TEST(OpenPairs, KeepsWhatEachNodeSaidLast) {
  OpenPairs pairs;
  pairs.add("h1", {{kA, 178, 200, 11}}, Time{seconds{1}});
  pairs.add("h2", {{kB, 200, 178, 22}}, Time{seconds{5}});
  pairs.forget(Time{seconds{2}});
  EXPECT_TRUE(pairs.join({}).flows.empty()) << "h1 has not been heard of since";
  pairs.add("h2", {}, Time{seconds{6}});
  EXPECT_TRUE(pairs.empty());
}

}  // namespace
}  // namespace heddle
