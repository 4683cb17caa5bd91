#include "tests/lab/traffic.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/lab/expect.h"
#include "tests/lab/fabric.h"
#include "tests/lab/routing.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kSeed = 20260;

// A fabric with traffic on it, one host's name by leaf and place.
struct Lab {
  Fabric fabric;
  std::unique_ptr<Traffic> traffic;

  explicit Lab(int leaves = 2, int spines = 2, int hosts = 2)
      : fabric(must(Fabric::raise({.leaves = leaves,
                                   .spines = spines,
                                   .hosts = hosts,
                                   .rate = 25_mbps,
                                   .prefix = unique_namespace_name("")}))) {
    std::vector<TrafficHost> all;
    for (int leaf = 1; leaf <= leaves; ++leaf) {
      for (int host = 1; host <= hosts; ++host) {
        const std::string name = NodeName::host(leaf, host);
        all.push_back({name, host_address(leaf, host), &fabric.space(name)});
      }
    }
    traffic = must(Traffic::start(all));
  }

  void add(const std::string& name, Pattern pattern, std::vector<std::string> hosts,
           std::uint32_t bytes = 65536, Duration compute = 20ms, int queue_pairs = 1) {
    must(traffic->add_job({.name = name,
                           .pattern = pattern,
                           .hosts = std::move(hosts),
                           .message_bytes = bytes,
                           .compute = compute,
                           .queue_pairs = queue_pairs}));
  }

  std::map<std::string, std::uint64_t> uplink_bytes(int leaf) {
    std::map<std::string, std::uint64_t> bytes;
    for (const LinkSeen& link : must(fabric.netlink(NodeName::leaf(leaf)).links()))
      if (link.name.starts_with("up"))
        bytes[link.name] = link.tx_bytes;
    return bytes;
  }

  // Pins a host's traffic to another host to a spine, by hand.
  void pin(int leaf, int host, const IpAddress& destination, int spine) {
    Netlink& net = fabric.netlink(NodeName::leaf(leaf));
    const auto table = static_cast<std::uint32_t>(18800 + host);
    const RuleSpec rule{
        .in_port = fmt::format("p{}", host), .table = table, .priority = 1880, .protocol = 188};
    const auto rules = must(net.rules());
    if (std::find(rules.begin(), rules.end(), rule) == rules.end())
      net.add_rule(rule);
    net.add_route({.destination = Prefix::host(destination),
                   .gateway = downlink_address(leaf, spine),
                   .device = fmt::format("up{}", spine),
                   .table = table,
                   .protocol = 188});
    must(net.commit());
  }
};

double mean_milliseconds(const std::vector<Iteration>& iterations) {
  const Duration sum = std::accumulate(
      iterations.begin(), iterations.end(), Duration{},
      [](Duration total, const Iteration& each) { return total + each.communication; });
  return std::chrono::duration<double, std::milli>(sum).count() /
         static_cast<double>(iterations.size());
}

// 14 steps of 16 packets of 4,178 bytes at 25 Mbit/s: a step takes at least 21.4 ms.
TEST(Traffic, ARingsIterationLastsAsLongAsItsBytesNeed) {
  Lab lab;
  lab.add("ring", Pattern::ring_all_reduce, {"h1-1", "h2-1"});
  must(lab.traffic->connect(kSeed));
  const Time begin = boot_now();
  lab.traffic->run();
  must(lab.traffic->await_iterations(3, begin, 10s));
  must(lab.traffic->finish(5s));
  const double milliseconds = mean_milliseconds(lab.traffic->iterations("ring"));
  const double ideal = 2 * 16 * 4178 * 8 / 25e6 * 1e3;  // 2 steps: a ring of two
  EXPECT_GT(milliseconds, ideal * 0.75);  // the bucket gives 10 ms away after each pause
  EXPECT_LT(milliseconds, ideal * 1.25);
}

// 16 packets of each message: 4 for each of 4 queue pairs, and the step lasts as long as before.
TEST(Traffic, SplitsEachMessageEvenlyOverItsQueuePairs) {
  Lab lab;
  lab.add("ring", Pattern::ring_all_reduce, {"h1-1", "h2-1"}, 65536, 20ms, 4);
  must(lab.traffic->connect(kSeed));
  const Time begin = boot_now();
  lab.traffic->run();
  must(lab.traffic->await_iterations(3, begin, 10s));
  must(lab.traffic->finish(5s));
  const std::size_t iterations = lab.traffic->iterations("ring").size();
  const auto pairs = lab.traffic->pairs();
  ASSERT_EQ(pairs.size(), 8U);
  for (const PairReport& pair : pairs)
    EXPECT_EQ(pair.sender.transmitted - pair.sender.retransmitted, iterations * 2 * 4);
  const double ideal = 2 * 16 * 4178 * 8 / 25e6 * 1e3;
  EXPECT_GT(mean_milliseconds(lab.traffic->iterations("ring")), ideal * 0.75);
}

TEST(Traffic, AllToAllFinishesWithoutLossOrRepeats) {
  Lab lab(3, 2, 2);
  lab.add("experts", Pattern::all_to_all, {"h1-1", "h1-2", "h2-1", "h2-2", "h3-1", "h3-2"}, 16384);
  must(lab.traffic->connect(kSeed));
  const Time begin = boot_now();
  lab.traffic->run();
  must(lab.traffic->await_iterations(3, begin, 20s));
  must(lab.traffic->finish(5s));
  std::uint64_t checked = 0;
  for (const HostReport& host : lab.traffic->hosts()) {
    EXPECT_EQ(host.retransmitted, 0U) << host.name;
    EXPECT_EQ(host.lost, 0U) << host.name;
    EXPECT_EQ(host.icrc.wrong, 0U) << host.name;
    checked += host.icrc.checked;
  }
  EXPECT_GT(checked, 0U);
}

// The same source ports take the same spines, so that a draw can be repeated; other ports take
// others.
TEST(Traffic, TheSameQueuePairNumbersAreHashedToTheSameUplinks) {
  Lab lab(2, 4, 4);
  for (int host = 1; host <= 4; ++host)
    lab.add(fmt::format("job{}", host), Pattern::ring_all_reduce,
            {NodeName::host(1, host), NodeName::host(2, host)}, 16384);
  const auto placement = [&](unsigned seed) {
    must(lab.traffic->connect(seed));
    const auto before = lab.uplink_bytes(1);
    const Time begin = boot_now();
    lab.traffic->run();
    must(lab.traffic->await_iterations(2, begin, 10s));
    must(lab.traffic->finish(5s));
    std::vector<std::uint64_t> share;  // of each uplink, in flows: 8 packets each and iteration
    for (const auto& [name, bytes] : lab.uplink_bytes(1))
      share.push_back((bytes - before.at(name)) / 50'000);
    return share;
  };
  const auto first = placement(1);
  EXPECT_GT(std::accumulate(first.begin(), first.end(), std::uint64_t{0}), 0U);
  std::vector<std::vector<std::uint64_t>> others;
  for (unsigned seed = 2; seed <= 6; ++seed)
    others.push_back(placement(seed));
  // Which uplinks carry anything is what the hash decides; iterations in excess of two blur the
  // amounts.
  const auto used = [](const std::vector<std::uint64_t>& share) {
    std::vector<bool> any;
    any.reserve(share.size());
    for (const std::uint64_t each : share)
      any.push_back(each > 0);
    return any;
  };
  EXPECT_EQ(used(placement(1)), used(first));
  EXPECT_TRUE(std::any_of(others.begin(), others.end(),
                          [&](const auto& other) { return used(other) != used(first); }));
}

// Two flows of one leaf, each pinned to an uplink of its own, are as fast as alone; on one uplink,
// half as fast.
TEST(Traffic, ACollisionShowsAsSlowerIterations) {
  Lab lab;
  lab.add("A", Pattern::ring_all_reduce, {"h1-1", "h2-1"});
  lab.add("B", Pattern::ring_all_reduce, {"h1-2", "h2-2"});
  must(lab.traffic->connect(kSeed));
  const auto measure = [&](int spine_of_b) {
    lab.pin(1, 1, host_address(2, 1), 1);
    lab.pin(1, 2, host_address(2, 2), spine_of_b);
    lab.pin(2, 1, host_address(1, 1), 1);
    lab.pin(2, 2, host_address(1, 2), spine_of_b);
    const Time begin = boot_now();
    lab.traffic->run();
    must(lab.traffic->await_iterations(6, begin, 20s));
    must(lab.traffic->finish(5s));
    return std::max(mean_milliseconds(lab.traffic->iterations("A")),
                    mean_milliseconds(lab.traffic->iterations("B")));
  };
  const double apart = measure(2);
  const double together = measure(1);
  EXPECT_GT(together, apart * 1.4) << apart << " ms apart, " << together << " ms together";
}

// The only cable of leaf 2 dies for a few milliseconds: what was on it is lost, and sent again.
TEST(Traffic, RecoversFromALossyMomentAndCountsIt) {
  Lab lab(2, 1, 1);
  const auto routing = must(Routing::start(lab.fabric, 5ms));
  lab.add("ring", Pattern::ring_all_reduce, {"h1-1", "h2-1"}, 1 << 20, 0ms);
  must(lab.traffic->connect(kSeed));
  lab.traffic->probe(500);
  const Time begin = boot_now();
  lab.traffic->run();
  must(lab.traffic->await_iterations(1, begin, 20s));
  must(lab.fabric.cut_cable(2, 1));
  must(routing->await(RoutingEvent::Kind::withdrawn, 1, begin, 5s));
  must(lab.fabric.restore_cable(2, 1));
  const Time restored = boot_now();
  must(lab.traffic->await_iterations(1, restored, 20s));
  must(lab.traffic->finish(20s));
  std::uint64_t lost = 0;
  std::uint64_t repeated = 0;
  for (const HostReport& host : lab.traffic->hosts()) {
    lost += host.lost;
    repeated += host.retransmitted;
  }
  EXPECT_GT(lost, 0U);
  EXPECT_GT(repeated, 0U);
  EXPECT_GT(lab.traffic->probes_between(begin, restored).lost, 0U);
  EXPECT_EQ(lab.traffic->probes_between(restored + 500ms, boot_now() - 200ms).lost, 0U);
  EXPECT_FALSE(lab.traffic->probe_outages(begin, boot_now()).empty());
}

TEST(Traffic, ANameThatIsNoHostIsRefused) {
  Lab lab(2, 1, 1);
  EXPECT_EQ(lab.traffic
                ->add_job({.name = "x",
                           .pattern = Pattern::all_to_all,
                           .hosts = {"h1-1", "h9-9"},
                           .message_bytes = 1,
                           .compute = 1ms})
                .error()
                .code,
            Errc::not_found);
}

TEST(Traffic, WaitingForIterationsThatDoNotComeEndsInTime) {
  Lab lab(2, 1, 1);
  lab.add("ring", Pattern::ring_all_reduce, {"h1-1", "h2-1"});
  must(lab.traffic->connect(kSeed));
  EXPECT_EQ(lab.traffic->await_iterations(1, boot_now(), 20ms).error().code, Errc::timeout);
}

}  // namespace
}  // namespace heddle::lab
