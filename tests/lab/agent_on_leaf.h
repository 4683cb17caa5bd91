// A whole agent over a real kernel; the test is its coordinator. One thread.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "agent/agent.h"
#include "agent/observe/tc_bpf_source.h"
#include "tests/agent/fake_node.h"
#include "tests/lab/program_lab.h"

namespace heddle::lab {

// The agent of leaf1 with the kernel of `leaf`.
struct Node {
  // With `sees_packets`, flows are those that leave by the uplinks, else whatever `flows` says.
  explicit Node(Enforcer enforcer, bool sees_packets = false)
      : agent(configuration(enforcer),
              {.software = "test", .boot_id = must(current_boot_id()), .instance = 7},
              {.kernel = *kernel_in(enforcer),
               .ports = *kernel,
               .ownership = ownership,
               .flows = flows_of(sees_packets),
               .store = store,
               .channel = channel,
               .clock = clock}) {
    kernel->on_event([this](const KernelEvent& event) { agent.kernel_changed(event); });
    const InNamespace inside(leaf.leaf);  // where it listens from now on
    must(agent.start());
    agent.connection_changed(true, "");
  }
  bool run_until(const std::function<bool()>& reached,
                 Duration patience = std::chrono::seconds{10}) {
    const Time end = clock.now() + patience;
    for (;;) {
      step();
      if (reached())
        return true;
      const Time now = clock.now();
      if (now >= end)
        return false;
      pollfd readable{.fd = kernel->fd(), .events = POLLIN, .revents = 0};
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(
          std::min(end, std::max(agent.next_deadline(), now)) - now);
      ::poll(&readable, 1, static_cast<int>(wait.count()));
      kernel->ready();
    }
  }
  void say(Message message) {
    agent.received(encode({.node = "coordinator", .sequence = 1, .message = std::move(message)}));
    step();
  }
  Acknowledgement state() const { return agent.programmer().state(); }
  std::uint32_t installed() const { return state().installed; }
  // Whatever is due within a report's interval has happened, and nothing came of it.
  void go_on() {
    run_until([] { return false; }, std::chrono::milliseconds{150});
  }

  Leaf leaf;
  TemporaryDirectory state_dir;
  SystemClock clock;
  std::unique_ptr<NetlinkKernel> kernel;
  OwnershipFile ownership{state_dir.path(), must(current_boot_id())};
  FakeFlows flows;
  std::unique_ptr<TcBpfSource> packets;
  MemoryStore store;
  FakeChannel channel;
  ::heddle::Agent agent;

 private:
  static AgentConfig configuration(Enforcer enforcer) {
    AgentConfig config = FakeNode::configuration();
    config.enforcer = enforcer;
    if (is_of_hosts(enforcer))
      config.role = Role::host;
    config.report_interval = std::chrono::milliseconds{100};
    return config;
  }
  NetlinkKernel* kernel_in(Enforcer enforcer) {
    const InNamespace inside(leaf.leaf);
    kernel = must(NetlinkKernel::open({.ranges = {},
                                       .marks = enforcer == Enforcer::flow_marks,
                                       .segments = enforcer == Enforcer::srv6}));
    return kernel.get();
  }
  FlowSource& flows_of(bool sees_packets) {
    if (!sees_packets)
      return flows;
    const InNamespace inside(leaf.leaf);
    packets = std::make_unique<TcBpfSource>(std::vector<std::string>{"up*"});
    return *packets;
  }
  void step() {
    const InNamespace inside(leaf.leaf);  // whose interfaces the source asks for by their names
    agent.step();
  }
};

}  // namespace heddle::lab
