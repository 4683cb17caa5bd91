// What an agent costs: at 1,000 flows and one report a second its resident memory, its share of a
// processor and what it puts on the wire, at 10,000 flows its memory again and the reading of the
// kernel's table. The agent is the real program in a network namespace, with the real kernel
// program and table, talking over CURVE to a sink that does what a coordinator does to one agent.
// Needs root.
//
//   heddle-agent-cost HEDDLE_AGENT [SECONDS]
//
// Ends with 1 if a limit is exceeded, with 2 if it could not measure.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/observe/tc_bpf_source.h"
#include "common/core/messages.h"
#include "common/runtime/event_loop.h"
#include "common/runtime/system_clock.h"
#include "common/transport/keys.h"
#include "common/transport/zmq_channel.h"
#include "common/wire/codec.h"
#include "tests/lab/expect.h"
#include "tests/lab/netlink.h"
#include "tests/lab/netns.h"

namespace heddle::lab {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::uint32_t kFlows = 1000;
constexpr double kMegabytes = 20;
constexpr double kPercent = 1;
constexpr std::size_t kReportOctets = 40'000;
constexpr std::uint32_t kManyFlows = 10'000;
constexpr double kManyMegabytes = 30;
constexpr int kReadings = 21;

// The calls by which this process read tables of the kernel, and how long they took together.
struct Batches {
  int calls{};
  std::chrono::steady_clock::duration time{};
};
Batches batches;
constexpr PlanVersion kVersion{1, 1};

// A leaf with one uplink, and a folder with keys and configuration; all gone at the end.
class Bench {
 public:
  Bench() {
    net_leaf_.add_veth("up1", net_spine_, "d1", 4200);
    net_leaf_.add_veth("p1", net_spine_, "h1", 4200);
    net_leaf_.set_up("p1");
    net_leaf_.set_up("up1");
    net_leaf_.add_address("up1", must(IpAddress::parse("10.101.1.1")), 30);
    must(net_leaf_.commit());
    net_spine_.set_up("h1");
    net_spine_.set_up("d1");
    net_spine_.add_address("d1", must(IpAddress::parse("10.101.1.2")), 30);
    must(net_spine_.commit());

    std::string pattern = (std::filesystem::temp_directory_path() / "heddle-cost-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("no temporary folder");
    folder = pattern;
    std::filesystem::create_directory(folder / "authorised");
    for (const char* name : {"coordinator", "agent"})
      must(write_keys(must(generate_keys()), folder / name));
    std::filesystem::copy(folder / "agent.pub", folder / "authorised" / "leaf1.pub");
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() { std::filesystem::remove_all(folder); }

  std::filesystem::path write_config(const std::string& endpoint) const {
    std::filesystem::path file = folder / "agent.yaml";
    std::ofstream(file) << fmt::format(
        "node: leaf1\nrole: leaf\nmode: program\n"
        "coordinator: {{endpoint: \"{}\", public_key: {}}}\nkey: {}\n"
        "state_dir: {}\nrun_dir: {}\nuplinks: [\"up*\"]\nhost_ports: [\"p*\"]\nlog_level: error\n",
        endpoint, (folder / "coordinator.pub").string(), (folder / "agent").string(),
        (folder / "state").string(), (folder / "run").string());
    return file;
  }

  std::filesystem::path folder;

 private:
  NetNamespace leaf_ = must(NetNamespace::create(unique_namespace_name("leaf")));
  NetNamespace spine_ = must(NetNamespace::create(unique_namespace_name("spine")));
  Netlink net_leaf_ = must(Netlink::open(leaf_));
  Netlink net_spine_ = must(Netlink::open(spine_));
  // The sink, the sender and the agent are all on the leaf: threads and processes begin where their
  // maker is.
  InNamespace inside_{leaf_};
};

// One packet of each flow.
class Traffic {
 public:
  explicit Traffic(std::uint32_t flows) : flows_(flows), fd_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    to_.sin_family = AF_INET;
    to_.sin_port = htons(4791);
    to_.sin_addr.s_addr = ::inet_addr("10.101.1.2");
  }
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;
  ~Traffic() { ::close(fd_); }

  void send() {
    std::array<std::uint8_t, 1024> packet{};
    packet[0] = 0x06;   // RDMA WRITE first
    packet[25] = 0x80;  // of 8 MiB
    for (std::uint32_t qpn = 1; qpn <= flows_; ++qpn) {
      packet[6] = static_cast<std::uint8_t>(qpn >> 8);
      packet[7] = static_cast<std::uint8_t>(qpn);
      ::sendto(fd_, packet.data(), packet.size(), 0, reinterpret_cast<const sockaddr*>(&to_),
               sizeof(to_));
    }
  }

 private:
  std::uint32_t flows_;
  int fd_;
  sockaddr_in to_{};
};

class AgentProcess {
 public:
  AgentProcess(const std::string& program, const std::string& config) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execl(program.c_str(), program.c_str(), "run", "--config", config.c_str(), nullptr);
      std::perror(program.c_str());
      ::_exit(127);
    }
  }
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;
  ~AgentProcess() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }

  // All of its threads, to the nanosecond.
  Duration processor_time() const {
    clockid_t clock{};
    timespec used{};
    if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &used) != 0)
      throw std::runtime_error("the agent has ended");
    return seconds{used.tv_sec} + Duration{used.tv_nsec};
  }
  double resident_megabytes() const {
    std::ifstream status(fmt::format("/proc/{}/status", pid_));
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:"))
        return std::stod(line.substr(6)) / 1024;
    }
    throw std::runtime_error("the agent has ended");
  }

 private:
  pid_t pid_{};
};

// What a coordinator does to one agent, which it keeps the reports of.
class Sink {
 public:
  Sink(EventLoop& loop, const Bench& bench)
      : loop_(loop),
        channel_(must(
            ZmqServerChannel::listen(loop, {.endpoint = "tcp://127.0.0.1:*",
                                            .keys = must(load_keys(bench.folder / "coordinator")),
                                            .authorised_keys = bench.folder / "authorised"}))) {
    channel_->on_message([this](const Peer& peer, Payload payload) { received(peer, payload); });
  }
  std::string endpoint() const { return channel_->endpoint(); }

  // So long, with the traffic going on.
  void run_for(Duration time, Traffic& traffic) {
    // Several times an interval, so that a report that comes a little early still finds every flow.
    const EventSource sender = loop_.every(milliseconds{250}, [&] { traffic.send(); });
    const EventSource heart = loop_.every(seconds{1}, [this] {
      tell(Heartbeat{.version = kVersion, .digest = digest({}), .lease = seconds{120}});
    });
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end)
      must(loop_.run_once(milliseconds{100}));
  }

  std::vector<Report> reports;
  std::size_t largest{};  // of the reports, in octets on the wire

 private:
  void tell(Message message) {
    if (agent_) {
      (void)channel_->send(
          *agent_, encode({.node = "coordinator", .sequence = 0, .message = std::move(message)}));
    }
  }
  void received(const Peer& peer, Payload payload) {
    Envelope envelope = must(decode(payload));
    if (std::holds_alternative<Hello>(envelope.message)) {
      agent_ = peer;
      tell(Welcome{.version = kVersion, .report_interval = seconds{1}, .lease = seconds{120}});
      tell(Snapshot{.plan = {.node = "leaf1", .version = kVersion, .pins = {}},
                    .digest = digest({})});
    } else if (auto* report = std::get_if<Report>(&envelope.message)) {
      largest = std::max(largest, payload.size());
      reports.push_back(std::move(*report));
    }
  }

  EventLoop& loop_;
  std::unique_ptr<ZmqServerChannel> channel_;
  std::optional<Peer> agent_;
};

bool whole(const std::vector<Report>& reports, std::uint32_t flows) {
  return !reports.empty() && std::ranges::all_of(reports, [flows](const Report& report) {
    return report.flows.size() == flows && !report.gap;
  });
}

int nothing_measured() {
  fmt::print(stderr, "agent_cost: not every report had every flow: nothing was measured\n");
  return 2;
}

int measure_agent(const Bench& bench, const std::string& program, seconds duration) {
  auto loop = must(EventLoop::create());
  Sink sink(*loop, bench);
  const AgentProcess agent(program, bench.write_config(sink.endpoint()).string());
  Traffic traffic(kFlows);
  sink.run_for(seconds{3}, traffic);
  sink.reports.clear();
  sink.largest = 0;
  const Duration used_before = agent.processor_time();
  const auto begin = std::chrono::steady_clock::now();
  sink.run_for(duration, traffic);
  const Duration used = agent.processor_time() - used_before;
  const Duration passed = std::chrono::steady_clock::now() - begin;
  const double megabytes = agent.resident_megabytes();
  const std::size_t report_octets = sink.largest;
  const double percent =
      100.0 * static_cast<double>(used.count()) / static_cast<double>(passed.count());
  fmt::print(
      "agent_cost: {:.1f} MB resident (at most {}), {:.2f} % of one processor (at most {}); "
      "{} flows, {} reports of {} octets (at most {}) in {} s\n",
      megabytes, kMegabytes, percent, kPercent, kFlows, sink.reports.size(), report_octets,
      kReportOctets, std::chrono::duration_cast<seconds>(passed).count());
  if (!whole(sink.reports, kFlows) ||
      sink.reports.size() + 2 < static_cast<std::size_t>(duration.count()))
    return nothing_measured();

  Traffic much(kManyFlows);
  sink.run_for(seconds{3}, much);
  sink.reports.clear();
  sink.run_for(seconds{5}, much);
  const double many_megabytes = agent.resident_megabytes();
  fmt::print("agent_cost: {:.1f} MB resident (at most {}) with {} flows, {} octets a report\n",
             many_megabytes, kManyMegabytes, kManyFlows, sink.largest);
  if (!whole(sink.reports, kManyFlows))
    return nothing_measured();
  const bool good = megabytes <= kMegabytes && percent <= kPercent &&
                    report_octets <= kReportOctets && many_megabytes <= kManyMegabytes;
  return good ? 0 : 1;
}

// In this process, so that the calls can be counted.
int measure_reading() {
  const SystemClock clock;
  TcBpfSource source({"up1"});
  Traffic(kManyFlows).send();
  must(source.read(clock.now()));
  std::vector<double> readings;
  Batches most;
  for (int i = 0; i < kReadings; ++i) {
    batches = {};
    const auto begin = std::chrono::steady_clock::now();
    const FlowReading reading = must(source.read(clock.now()));
    readings.push_back(Milliseconds(std::chrono::steady_clock::now() - begin).count());
    if (reading.flows.size() != kManyFlows)
      return nothing_measured();
    most = {std::max(most.calls, batches.calls), std::max(most.time, batches.time)};
  }
  std::ranges::sort(readings);
  fmt::print(
      "agent_cost: {} entries of the kernel's table read in {} batch(es) (at most 1) of {:.2f} ms "
      "at most; the whole reading {:.2f} ms in the median, {:.2f} ms at most\n",
      kManyFlows, most.calls, Milliseconds(most.time).count(), readings[readings.size() / 2],
      readings.back());
  return most.calls == 1 ? 0 : 1;
}

int measure(const std::string& program, seconds duration) {
  const Bench bench;
  const int agent = measure_agent(bench, program, duration);
  const int reading = measure_reading();
  return std::max(agent, reading);
}

}  // namespace
}  // namespace heddle::lab

// Stands before libbpf's own, which it calls.
extern "C" int bpf_map_lookup_batch(int fd, void* in_batch, void* out_batch, void* keys,
                                    void* values, __u32* count, const bpf_map_batch_opts* opts) {
  static const auto real =
      reinterpret_cast<decltype(&bpf_map_lookup_batch)>(::dlsym(RTLD_NEXT, "bpf_map_lookup_batch"));
  const auto begin = std::chrono::steady_clock::now();
  const int result = real(fd, in_batch, out_batch, keys, values, count, opts);
  heddle::lab::batches.time += std::chrono::steady_clock::now() - begin;
  ++heddle::lab::batches.calls;
  return result;
}

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: heddle-agent-cost HEDDLE_AGENT [SECONDS]\n");
    return 2;
  }
  try {
    return heddle::lab::measure(argv[1], std::chrono::seconds{argc == 3 ? std::atoi(argv[2]) : 20});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "agent_cost: %s\n", error.what());
    return 2;
  }
}
