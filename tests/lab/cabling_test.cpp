// Cables as real lldpds hear them: one in each namespace of a small fabric whose two uplinks are
// swapped, and a spine that falls silent.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/netlink/netlink_kernel.h"
#include "agent/netlink/port_speeds.h"
#include "agent/observe/ethtool_statistics.h"
#include "agent/observe/lldp.h"
#include "agent/observe/pauses.h"
#include "common/core/topology.h"
#include "coordinator/predict/cable_table.h"
#include "tests/lab/expect.h"
#include "tests/lab/netlink.h"
#include "tests/lab/netns.h"
#include "tests/lab/process.h"

namespace heddle::lab {
namespace {

using std::chrono::seconds;

struct StillClock final : Clock {
  Time now() const override { return Time{}; }
  WallTime wall() const override { return WallTime{}; }
};

// A namespace with an lldpd of its own, which calls itself by the node's name.
class Node {
 public:
  Node(const std::string& name, const std::filesystem::path& folder)
      : name_(name), socket_((folder / (name + ".socket")).string()) {
    // Read before the first frame is sent: a change later would only count from the next frame on,
    // which is half a minute away.
    const std::string file = (folder / (name + ".conf")).string();
    std::ofstream(file) << "configure system hostname " << name
                        << "\nconfigure lldp tx-interval 1\nconfigure lldp tx-hold 3\n";
    daemon_ = std::make_unique<Child>(
        must(Child::start({.words = {"/usr/sbin/lldpd", "-d", "-u", socket_, "-p",
                                     (folder / (name + ".pid")).string(), "-O", file},
                           .space = &space,
                           .log = (folder / (name + ".log")).string()})));
  }
  ~Node() { stop(); }
  void stop() {
    if (daemon_)
      daemon_->stop(SIGTERM, seconds(5));
    daemon_.reset();
  }
  Output ask(std::vector<std::string> words) const {
    words.insert(words.begin(), {"/usr/sbin/lldpcli", "-u", socket_});
    return must(capture({.words = std::move(words), .space = &space, .log = {}}, seconds(20)));
  }
  std::vector<LldpNeighbour> neighbours() const {
    const Output heard = ask({"-f", "json", "show", "neighbors"});
    if (heard.status != 0)
      return {};  // its daemon does not listen yet
    return must(parse_lldp(heard.text));
  }
  // Asks until `wanted` of its neighbours call themselves by a node's name.
  std::vector<LldpNeighbour> neighbours(std::size_t wanted) const {
    const auto end = std::chrono::steady_clock::now() + seconds(30);
    for (;;) {
      std::vector<LldpNeighbour> heard = neighbours();
      std::erase_if(heard, [](const LldpNeighbour& one) {
        return !one.node.starts_with("leaf") && !one.node.starts_with("spine");
      });
      if (heard.size() == wanted || std::chrono::steady_clock::now() >= end)
        return heard;
    }
  }

  NetNamespace space = must(NetNamespace::create(unique_namespace_name("lldp")));

 private:
  std::string name_;
  std::string socket_;
  std::unique_ptr<Child> daemon_;
};

class CablingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("/usr/sbin/lldpd"))
      GTEST_SKIP() << "there is no lldpd; tests/install installs it";
    std::filesystem::create_directories("/run/lldpd");  // where each locks its workers in
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle-lldp-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    ::chmod(folder_.c_str(), 0755);
    for (const char* const name : {"leaf1", "spine1", "spine2"})
      nodes_.emplace(name, std::make_unique<Node>(name, folder_));
    // The file wants up1 at spine1 and up2 at spine2.
    connect("up1", "spine2");
    connect("up2", "spine1");
  }
  void TearDown() override {
    nodes_.clear();
    std::filesystem::remove_all(folder_);
  }

  void connect(const std::string& port, const std::string& spine) {
    Netlink near = must(Netlink::open(nodes_.at("leaf1")->space));
    Netlink far = must(Netlink::open(nodes_.at(spine)->space));
    near.add_veth(port, far, "d1", 1500);
    near.set_up(port);
    must(near.commit());
    far.set_up("d1");
    must(far.commit());
  }
  static Topology fabric() {
    FabricDescription file;
    file.name = "lldp";
    file.leaves = {{.name = "leaf1", .rack = "", .line = 0}};
    for (const char* const n : {"1", "2"}) {
      file.spines.push_back({.name = std::string("spine") + n, .line = 0});
      file.cables.push_back({.leaf = "leaf1",
                             .spine = std::string("spine") + n,
                             .leaf_port = std::string("up") + n,
                             .spine_port = "d1",
                             .capacity = Rate{25e9},
                             .line = 0});
    }
    return *Topology::build(file);
  }

  std::filesystem::path folder_;
  std::map<std::string, std::unique_ptr<Node>> nodes_;
};

TEST_F(CablingTest, SwappedUplinksAreFoundByWhatLldpdsHear) {
  CableTable table;
  table.set_neighbours("leaf1", nodes_.at("leaf1")->neighbours(2));
  table.set_neighbours("spine1", nodes_.at("spine1")->neighbours(1));
  table.set_neighbours("spine2", nodes_.at("spine2")->neighbours(1));
  const CableCheck check = table.check(fabric());
  ASSERT_EQ(check.differences.size(), 1U);
  EXPECT_EQ(check.differences[0].fault, CableFault::swapped);
  EXPECT_EQ(check.differences[0].at, (CableEnd{"leaf1", "up1"}));
  EXPECT_EQ(check.differences[0].found, (CableEnd{"spine2", "d1"}));
  EXPECT_EQ(check.differences[0].other, (CableEnd{"leaf1", "up2"}));
}

// One neighbour is an object in lldpcli's JSON where two are a list, and none is neither.
TEST_F(CablingTest, ASpineThatFallsSilentIsNotHeardAnyMore) {
  EXPECT_EQ(nodes_.at("leaf1")->neighbours(2).size(), 2U);
  nodes_.at("spine1")->stop();
  const std::vector<LldpNeighbour> left = nodes_.at("leaf1")->neighbours(1);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].node, "spine2");
  nodes_.at("spine2")->stop();
  EXPECT_TRUE(nodes_.at("leaf1")->neighbours(0).empty());
}

// A veth pair tells its other end, and counts no pauses.
TEST_F(CablingTest, APortsStatisticsComeFromItsDriver) {
  const InNamespace inside(nodes_.at("leaf1")->space);
  const EthtoolStatistics ethtool;
  const std::vector<NamedCount> statistics = must(ethtool.statistics("up1"));
  const auto peer = std::ranges::find(statistics, "peer_ifindex", &NamedCount::name);
  ASSERT_NE(peer, statistics.end());
  EXPECT_GT(peer->value, 0U);
  EXPECT_TRUE(pause_counters(statistics).empty());
}

// The kernel's veth pairs say that they run at 10 Gbit/s.
TEST_F(CablingTest, APortsSpeedComesFromItsDriver) {
  const InNamespace inside(nodes_.at("leaf1")->space);
  const auto kernel = must(NetlinkKernel::open({.ranges = {}}));
  const StillClock clock;
  PortSpeeds speeds(*kernel, clock);
  const std::vector<PortStatus> ports = must(speeds.ports());
  CableTable table;
  table.set_ports("leaf1", ports);
  const CableCheck check = table.check(fabric());
  ASSERT_EQ(check.differences.size(), 2U);
  for (const CableDifference& slow : check.differences) {
    EXPECT_EQ(slow.fault, CableFault::speed);
    EXPECT_EQ(slow.found_speed, Rate{10e9});
  }
}

}  // namespace
}  // namespace heddle::lab
