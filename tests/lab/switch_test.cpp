// The off switch for a part of the fabric, and what is never to be touched, read back from real
// kernels' tables while jobs run. Needs root.
#include <gtest/gtest.h>

#include "tests/lab/rollout_lab.h"

namespace heddle::lab {
namespace {

class SwitchLab : public RolloutLab {
 protected:
  // Where the pins of a leaf lead to, by the routes in its kernel's tables.
  std::set<std::string> pinned_to(int leaf) {
    std::set<std::string> addresses;
    for (const RouteSeen& route : must(fabric->netlink(NodeName::leaf(leaf)).routes()))
      if (route.protocol == kPinProtocol)
        addresses.insert(to_string(route.destination.address));
    return addresses;
  }
  std::set<std::string> pinned() {
    std::set<std::string> all;
    for (int leaf = 1; leaf <= fabric->spec().leaves; ++leaf)
      all.merge(pinned_to(leaf));
    return all;
  }
  std::set<std::string> addresses_of(const ClusterJob& job) const {
    std::set<std::string> addresses;
    for (int leaf = 1; leaf <= fabric->spec().leaves; ++leaf)
      for (int host = 1; host <= fabric->spec().hosts; ++host)
        if (std::ranges::find(job.hosts, NodeName::host(leaf, host)) != job.hosts.end())
          addresses.insert(to_string(host_address(leaf, host)));
    return addresses;
  }
  std::size_t routes() {
    std::size_t all = 0;
    for (int leaf = 1; leaf <= fabric->spec().leaves; ++leaf)
      all += pinned_to(leaf).size();
    return all;
  }
  // Until every flow has its route again.
  void await_routes(std::size_t count) {
    must(cluster->await([&](const ClusterStatus&) { return routes() == count; }, 30s,
                        "the tables to hold all pins"));
  }
  // What `disable` says, which is after it was read back.
  void disable(const std::string& scope, const std::string& name) {
    const json nodes = ask({"disable", scope, name})["nodes"];
    EXPECT_FALSE(nodes.empty());
    for (const json& node : nodes)
      EXPECT_TRUE(node["confirmed"]) << node;
  }
};

TEST_F(SwitchLab, ARackANodeOrAJobIsOffInTheTablesWhenDisableAnswers) {
  start("off");
  await_routes(16);

  disable("--rack", "rack2");
  EXPECT_EQ(pins_of(2), 0);
  EXPECT_EQ(routes(), 12U) << "the other racks are steered";
  ask({"enable", "--rack", "rack2"});
  await_routes(16);

  disable("--node", "leaf3");
  EXPECT_EQ(pins_of(3), 0);
  EXPECT_EQ(routes(), 12U);
  ask({"enable", "--node", "leaf3"});
  await_routes(16);

  disable("--job", jobs[0].name);
  EXPECT_EQ(pinned(), addresses_of(jobs[1])) << "the other job is steered, and no other";
  EXPECT_EQ(routes(), 8U);
  ask({"enable", "--job", jobs[0].name});
  await_routes(16);
}

// All are pinned first, so that what must not be touched has to be let go. Nothing that comes from
// rack 2 and nothing that goes there has a pin then.
TEST_F(SwitchLab, WhatIsNeverToBeTouchedLosesItsPinsInTheTablesAndGetsNone) {
  start("off");
  await_routes(16);
  std::ofstream(cluster->folder() / "coordinator.yaml", std::ios::app)
      << "never_touch: [\"" << to_string(leaf_prefix(2)) << "\"]\n";
  kill_coordinator();
  // Four from its hosts, and four to them.
  await_routes(8);
  EXPECT_EQ(pins_of(2), 0);
  must(traffic->await_iterations(3, boot_now(), 20s));
  EXPECT_EQ(pins_of(2), 0);
  EXPECT_EQ(routes(), 8U);
  for (const std::string& address : pinned())
    EXPECT_FALSE(leaf_prefix(2).contains(*IpAddress::parse(address))) << address;
}

// By the configuration of a leaf's own agent: also nothing that comes in by the port behind which
// it is.
class OwnNeverTouchLab : public SwitchLab {
 protected:
  void configured() override {
    std::ofstream(cluster->folder() / "leaf3.yaml", std::ios::app)
        << "never_touch: [\"" << to_string(host_address(3, 1)) << "/32\"]\n";
  }
};

TEST_F(OwnNeverTouchLab, AnAgentInstallsNoPinForWhatItsOwnConfigurationForbids) {
  start("off");
  await_routes(15);
  must(traffic->await_iterations(3, boot_now(), 20s));
  EXPECT_EQ(routes(), 15U);
  EXPECT_EQ(pinned_to(3).size(), 3U);
  for (const RuleSpec& rule : must(fabric->netlink(NodeName::leaf(3)).rules()))
    EXPECT_FALSE(rule.protocol == kPinProtocol && rule.in_port == "p1");
}

}  // namespace
}  // namespace heddle::lab
