// heddle-lab: the laboratory's fabric by hand. `up` leaves it to a background process that plays
// the routing protocol; `down` removes everything, whatever state it is in.
//
// Exit status: 0 done; 1 it could not be done; 2 usage.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/lab/demo_stages.h"
#include "tests/lab/fabric.h"
#include "tests/lab/routing.h"
#include "tests/lab/traffic.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr const char* kPrefix = "hd-";

constexpr const char* kHelp = R"(usage: heddle-lab COMMAND

  up [LEAVES SPINES HOSTS [MBIT]]   raise a fabric (4 4 4 25) and play its routing protocol
  routing                           play the routing protocol of a fabric that is up, until interrupted
  cut leaf3-spine2 | spine2         a cable dies, or all cables of a spine
  restore leaf3-spine2 | spine2
  traffic                           the demonstration's two jobs over all hosts, until interrupted
  status                            cables, and what they have carried
  down                              remove every hd-* namespace and every process of the fabric

The nodes are namespaces: `ip netns exec hd-leaf1 ip route` looks into one.
)";

int explain(const Error& error) {
  fmt::print(stderr, "heddle-lab: {}\n", error.message);
  return kFailed;
}

// Waits in a thread-free process for somebody to end it.
void wait_for_end() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  int signal = 0;
  ::sigwait(&signals, &signal);
}

void hold_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

int routing() {
  hold_signals();
  auto fabric = Fabric::attach(kPrefix);
  if (!fabric)
    return explain(fabric.error());
  if (auto noted = fabric->remember_process(::getpid(), "heddle-lab routing"); !noted)
    return explain(noted.error());
  auto protocol = Routing::start(*fabric, 50ms);
  if (!protocol)
    return explain(protocol.error());
  wait_for_end();
  return kDone;
}

int up(const std::vector<std::string>& words) {
  FabricSpec spec;
  spec.prefix = kPrefix;
  std::vector<int> numbers;
  for (const std::string& word : words) {
    int value = 0;
    const char* end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc() || rest != end || value < 1 || value > 10000) {
      fmt::print(stderr, "heddle-lab: '{}' is no size\n", word);
      return kUsage;
    }
    numbers.push_back(value);
  }
  if (!numbers.empty() && numbers.size() != 3 && numbers.size() != 4) {
    fmt::print(stderr, "{}", kHelp);
    return kUsage;
  }
  if (numbers.size() >= 3) {
    spec.leaves = numbers[0];
    spec.spines = numbers[1];
    spec.hosts = numbers[2];
    if (spec.leaves > 100 || spec.spines > 250 || spec.hosts > 250) {
      fmt::print(stderr, "heddle-lab: at most 100 leaves, 250 spines and 250 hosts a leaf\n");
      return kUsage;
    }
  }
  if (numbers.size() == 4)
    spec.rate = Rate{numbers[3] * 1e6};
  const Time begin = boot_now();
  auto fabric = Fabric::raise(spec);
  if (!fabric)
    return explain(fabric.error());
  fabric->keep();
  const auto took = (boot_now() - begin) / 1ms;
  std::fflush(stdout);
  const pid_t background = ::fork();
  if (background == 0) {
    ::setsid();
    for (std::FILE* stream : {stdin, stdout, stderr})
      if (std::freopen("/dev/null", stream == stdin ? "r" : "w", stream) == nullptr)
        ::_exit(kFailed);
    ::_exit(routing());
  }
  if (background < 0)
    return explain({Errc::kernel, std::strerror(errno)});
  fmt::print("raised in {} ms; `heddle-lab down` removes it\n", took);
  return kDone;
}

// "leaf3-spine2" or "spine2"; leaf 0 stands for all.
std::optional<std::pair<int, int>> cable_of(const std::string& text, const FabricSpec& spec) {
  int leaf = 0;
  int spine = 0;
  int length = 0;
  const int size = static_cast<int>(text.size());
  if (std::sscanf(text.c_str(), "leaf%d-spine%d%n", &leaf, &spine, &length) == 2 &&
      length == size && leaf >= 1 && leaf <= spec.leaves && spine >= 1 && spine <= spec.spines)
    return std::pair(leaf, spine);
  if (std::sscanf(text.c_str(), "spine%d%n", &spine, &length) == 1 && length == size &&
      spine >= 1 && spine <= spec.spines)
    return std::pair(0, spine);
  return std::nullopt;
}

int change(const std::string& text, bool restore) {
  auto fabric = Fabric::attach(kPrefix);
  if (!fabric)
    return explain(fabric.error());
  const auto cable = cable_of(text, fabric->spec());
  if (!cable) {
    fmt::print(stderr, "heddle-lab: there is no cable '{}'\n", text);
    return kUsage;
  }
  const auto [leaf, spine] = *cable;
  const auto done =
      leaf == 0 ? (restore ? fabric->restore_spine(spine) : fabric->cut_spine(spine))
                : (restore ? fabric->restore_cable(leaf, spine) : fabric->cut_cable(leaf, spine));
  return done ? kDone : explain(done.error());
}

int status() {
  auto fabric = Fabric::attach(kPrefix);
  if (!fabric)
    return explain(fabric.error());
  fmt::print("{:<16}{:<8}{:>12}{:>12}\n", "CABLE", "STATE", "UP MB", "DOWN MB");
  for (int leaf = 1; leaf <= fabric->spec().leaves; ++leaf) {
    const auto links = fabric->netlink(NodeName::leaf(leaf)).links();
    if (!links)
      return explain(links.error());
    for (const LinkSeen& link : *links)
      if (link.name.starts_with("up"))
        fmt::print("{:<16}{:<8}{:>12.1f}{:>12.1f}\n",
                   fmt::format("leaf{}-spine{}", leaf, link.name.substr(2)),
                   link.up && link.carrier ? "up" : "down",
                   static_cast<double>(link.tx_bytes) / 1e6,
                   static_cast<double>(link.rx_bytes) / 1e6);
  }
  return kDone;
}

int traffic() {
  hold_signals();
  auto fabric = Fabric::attach(kPrefix);
  if (!fabric)
    return explain(fabric.error());
  const FabricSpec& spec = fabric->spec();
  std::vector<TrafficHost> hosts;
  for (int leaf = 1; leaf <= spec.leaves; ++leaf) {
    for (int host = 1; host <= spec.hosts; ++host) {
      const std::string name = NodeName::host(leaf, host);
      hosts.push_back({name, host_address(leaf, host), &fabric->space(name)});
    }
  }
  auto running = Traffic::start(hosts);
  if (!running)
    return explain(running.error());
  Traffic& engine = **running;
  for (const ClusterJob& job : place_jobs(spec, 1)) {
    if (job.hosts.size() < 2)
      continue;
    auto added = engine.add_job({.name = job.name,
                                 .pattern = Pattern::ring_all_reduce,
                                 .hosts = job.hosts,
                                 .message_bytes = 65536,
                                 .compute = 50ms});
    if (!added)
      return explain(added.error());
  }
  if (auto connected = engine.connect(1); !connected)
    return explain(connected.error());
  engine.run();
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  std::size_t known = 0;
  const timespec pause{.tv_sec = 1, .tv_nsec = 0};
  while (::sigtimedwait(&signals, nullptr, &pause) < 0) {
    const auto done = engine.iterations("ring-a");
    for (; known < done.size(); ++known)
      fmt::print("ring-a iteration {}: {:.1f} ms\n", known + 1,
                 static_cast<double>(done[known].communication / 1us) / 1000);
    std::fflush(stdout);
  }
  return kDone;
}

int run(const std::vector<std::string>& words) {
  const std::string command = words.empty() ? "" : words[0];
  const std::vector<std::string> rest(words.begin() + (words.empty() ? 0 : 1), words.end());
  if (command == "--help" || command == "-h") {
    fmt::print("{}", kHelp);
    return kDone;
  }
  if (command == "up")
    return up(rest);
  if ((command == "cut" || command == "restore") && rest.size() == 1)
    return change(rest[0], command == "restore");
  if (rest.empty() && command == "routing")
    return routing();
  if (rest.empty() && command == "traffic")
    return traffic();
  if (rest.empty() && command == "status")
    return status();
  if (rest.empty() && command == "down") {
    const auto removed = Fabric::tear_down(kPrefix);
    if (!removed)
      return explain(removed.error());
    fmt::print("removed {} namespaces and processes\n", *removed);
    return kDone;
  }
  fmt::print(stderr, "{}", kHelp);
  return kUsage;
}

}  // namespace
}  // namespace heddle::lab

int main(int argc, char** argv) {
  return heddle::lab::run({argv + 1, argv + argc});
}
