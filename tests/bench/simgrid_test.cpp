// Another solver as judge: SimGrid's max-min (model CM02 without its corrections for TCP) must give
// the rates that ours gives. All instances run side by side in one simulation, on links of their
// own.
#include <gtest/gtest.h>

#include <random>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "common/core/fairness.h"

namespace heddle {
namespace {

namespace sg = simgrid::s4u;

constexpr int kInstances = 150;
constexpr std::uint64_t kSeed = 150;

struct Instance {
  std::vector<double> capacities;
  FairNetwork network;
};

Instance draw(std::mt19937_64& random) {
  Instance instance;
  const auto links = static_cast<std::uint32_t>(2 + random() % 20);
  for (std::uint32_t l = 0; l < links; ++l)
    instance.capacities.push_back(1.0 + static_cast<double>(random() % 1000) / 10);
  const auto flows = static_cast<std::uint32_t>(1 + random() % 25);
  std::vector<std::uint32_t> order(links);
  for (std::uint32_t l = 0; l < links; ++l)
    order[l] = l;
  for (std::uint32_t f = 0; f < flows; ++f) {
    std::shuffle(order.begin(), order.end(), random);
    const auto crossed = std::min<std::size_t>(links, 1 + random() % 4);
    for (std::size_t i = 0; i < crossed; ++i)
      instance.network.cross(LinkId{order[i]});
    instance.network.end_flow();
  }
  return instance;
}

TEST(MaxMinFair, AgreesWithSimGridsSolver) {
  std::mt19937_64 random(kSeed);
  std::vector<Instance> instances;
  for (int i = 0; i < kInstances; ++i)
    instances.push_back(draw(random));

  auto* root = sg::create_full_zone("root");
  std::vector<std::vector<std::pair<sg::Host*, sg::Host*>>> ends(kInstances);
  for (int i = 0; i < kInstances; ++i) {
    auto* zone = sg::create_full_zone("i" + std::to_string(i))->set_parent(root);
    std::vector<const sg::Link*> links;
    for (std::size_t l = 0; l < instances[i].capacities.size(); ++l)
      links.push_back(zone->create_link("l" + std::to_string(i) + "-" + std::to_string(l),
                                        instances[i].capacities[l])
                          ->set_latency(0)
                          ->seal());
    const FairNetwork& network = instances[i].network;
    for (std::size_t f = 0; f < network.flows(); ++f) {
      const std::string name = std::to_string(i) + "-" + std::to_string(f);
      auto* from = zone->create_host("s" + name, 1e9)->seal();
      auto* to = zone->create_host("d" + name, 1e9)->seal();
      std::vector<sg::LinkInRoute> route;
      for (std::uint32_t k = network.first[f]; k < network.first[f + 1]; ++k)
        route.emplace_back(links[network.links[k].value]);
      zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
      ends[i].emplace_back(from, to);
    }
    zone->seal();
  }
  root->seal();

  // Each flow sends far more than it can in one second; what it has sent after that is its rate.
  constexpr double kSize = 1e6;
  std::vector<std::vector<double>> rates(kInstances);
  sg::Actor::create("observer", ends[0][0].first, [&] {
    std::vector<std::vector<sg::CommPtr>> sends(kInstances);
    for (int i = 0; i < kInstances; ++i)
      for (const auto& [from, to] : ends[i]) {
        auto send = sg::Comm::sendto_init(from, to)->set_payload_size(static_cast<uint64_t>(kSize));
        send->start();
        sends[i].push_back(send);
      }
    sg::this_actor::sleep_for(1.0);
    for (int i = 0; i < kInstances; ++i)
      for (auto& send : sends[i]) {
        rates[i].push_back(kSize - send->get_remaining());
        send->cancel();
      }
  });
  sg::Engine::get_instance()->run();

  MaxMin solver;
  for (int i = 0; i < kInstances; ++i) {
    const auto ours = solver.solve(instances[i].network, instances[i].capacities);
    ASSERT_EQ(ours.size(), rates[i].size());
    for (std::size_t f = 0; f < ours.size(); ++f)
      ASSERT_NEAR(ours[f], rates[i][f], 1e-6 * ours[f])
          << "seed " << kSeed << " instance " << i << " flow " << f;
  }
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  simgrid::s4u::Engine engine(&argc, argv);
  for (const char* setting :
       {"network/model:CM02", "network/optim:Full", "network/crosstraffic:0", "network/TCP-gamma:0",
        "network/weight-S:0", "network/bandwidth-factor:1", "network/latency-factor:1",
        "maxmin/precision:1e-9"})
    simgrid::s4u::Engine::set_config(setting);
  return RUN_ALL_TESTS();
}
