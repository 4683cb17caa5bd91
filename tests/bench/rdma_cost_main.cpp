// What a look at 10,000 queue pairs costs, from the octets of RDMA netlink to the octets of a
// report, and how much memory it takes to know them; and how long the report of 1,000 flows is of
// which everything is known. The messages are made as the kernel makes them.
//
//   heddle-rdma-cost
//
// Ends with 1 if a limit is exceeded.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "agent/observe/flow_merger.h"
#include "agent/observe/rdma_observer.h"
#include "agent/report/reporter.h"
#include "common/wire/codec.h"
#include "tests/agent/observe/rdma_builder.h"

namespace heddle {
namespace {

constexpr std::uint32_t kPairs = 10'000;
constexpr std::uint32_t kDevices = 8;
constexpr double kMilliseconds = 20;
constexpr double kMegabytes = 30;
constexpr int kRounds = 21;
constexpr std::uint32_t kFlows = 1000;
constexpr std::size_t kReportOctets = 40'000;
constexpr std::uint64_t kSeed = 1;
constexpr std::uint64_t kSecond = kDevices * 400'000'000'000 / 8;  // octets
constexpr std::uint64_t kPacket = 4096;

class Kernel final : public RdmaChannel {
 public:
  Kernel() {
    test::RdmaBuilder system;
    system_ = system.message(RdmaCommand::system, [](test::RdmaBuilder&) {}).answer(0).bytes();
    test::RdmaBuilder devices;
    for (std::uint32_t d = 0; d < kDevices; ++d) {
      const std::string name = fmt::format("mlx5_{}", d);
      test::device_message(devices, d, name, 1000 + d);
      test::RdmaBuilder port;
      test::port_message(port, d, name, fmt::format("eth{}", d));
      ports_.push_back(port.done().bytes());
      test::RdmaBuilder pairs;
      // The kernel fills datagrams of 32 KiB.
      for (std::uint32_t first = 0; first < kPairs / kDevices; first += 400) {
        std::vector<QueuePair> some;
        for (std::uint32_t i = first; i < std::min(first + 400, kPairs / kDevices); ++i)
          some.push_back(test::connected(d, 1000 + i, 0x800000 + d * 0x10000 + i, 5000 + d));
        test::pairs_message(pairs, d, name, some);
      }
      pairs_.push_back(pairs.done().bytes());
    }
    devices_ = devices.done().bytes();
    test::RdmaBuilder nothing;
    nothing_ = nothing.done().bytes();
  }
  Result<std::vector<std::byte>> exchange(const RdmaRequest& request) override {
    std::uint16_t type = 0;
    std::uint32_t device = 0;
    std::memcpy(&type, request.data() + 4, sizeof(type));
    if (request.size() >= 24)
      std::memcpy(&device, request.data() + 20, sizeof(device));
    if (type == rdma_message_type(RdmaCommand::system))
      return system_;
    if (type == rdma_message_type(RdmaCommand::device))
      return devices_;
    if (type == rdma_message_type(RdmaCommand::port))
      return ports_[device];
    if (type == rdma_message_type(RdmaCommand::queue_pairs))
      return pairs_[device];
    return nothing_;
  }
  Result<std::vector<std::byte>> announced() override { return std::vector<std::byte>{}; }
  void let_go() override {}

 private:
  std::vector<std::byte> system_, devices_, nothing_;
  std::vector<std::vector<std::byte>> ports_, pairs_;
};

class Files final : public FileTree {
 public:
  std::vector<std::string> list(const std::string&) const override { return {}; }
  Result<std::string> read(const std::string& file) const override {
    if (file.ends_with("/gids/0"))
      return fmt::format("0000:0000:0000:0000:0000:ffff:0a01:0{}02", file[5]);
    if (file.ends_with("/types/0"))
      return "RoCE v2";
    return fail(Errc::not_found, {});
  }
};

// Eight NICs with as many statistics as an mlx5 has.
class Statistics final : public DriverStatistics {
 public:
  Statistics() {
    for (int i = 0; i < 1000; ++i)
      counts_.push_back({fmt::format("rx{}_packets", i), 1});
    counts_.push_back({"rx_prio3_pause", 1});
  }
  Result<std::vector<NamedCount>> statistics(const std::string&) const override { return counts_; }

 private:
  std::vector<NamedCount> counts_;
};

class Now final : public Clock {
 public:
  Time now() const override { return time; }
  WallTime wall() const override { return WallTime(time.time_since_epoch()); }
  Time time{std::chrono::hours(1)};
};

double resident_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:"))
      return std::stod(line.substr(6)) / 1024;
  return 0;
}

// 1,000 subflows through 8 ports, each with its queue pair, label and peer; numbers that are not
// given are drawn, because what is alike takes less room. They carry no more in a second than
// 8 x 400 Gbit/s.
struct ReportCase {
  const char* name;
  Duration connected_within;
  std::uint32_t peers;  // NICs, to which they lead
  std::uint32_t jobs;   // of which each has processes of its own
  bool two_sources;     // packets are seen of some of them only
};

constexpr std::array kReportCases{
    ReportCase{"one job, just connected", std::chrono::minutes(1), 250, 1, false},
    ReportCase{"one job, connected within an hour", std::chrono::hours(1), 250, 1, false},
    ReportCase{"one job for a month, to 1,000 NICs", std::chrono::hours(720), kFlows, 1, false},
    ReportCase{"8 jobs for a month, to 1,000 NICs, by two sources", std::chrono::hours(720), kFlows,
               8, true}};

Report report_of(const ReportCase& given) {
  Now clock;
  clock.time = Time(std::chrono::hours(1000));
  std::mt19937_64 random(kSeed);
  FlowReading reading{.source = "ebpf+rdma", .gap = false, .flows = {}};
  for (std::uint32_t i = 0; i < kFlows; ++i) {
    const auto nic = static_cast<std::uint8_t>(i % kDevices);
    const std::uint64_t bytes = random() % (2 * kSecond / kFlows);
    const auto peer =
        given.peers == kFlows ? i : static_cast<std::uint32_t>(random() % given.peers);
    const auto age = static_cast<std::int64_t>(
        random() % static_cast<std::uint64_t>(given.connected_within.count()));
    reading.flows.push_back(
        {.source = IpAddress::v4(10, 1, nic, 2),
         .destination = IpAddress::v4(10, static_cast<std::uint8_t>(2 + peer / 250),
                                      static_cast<std::uint8_t>(peer % 250), 2),
         .source_port = static_cast<std::uint16_t>(0xC000U | random()),
         .dest_qpn = static_cast<std::uint32_t>(random() & 0xFFFFFFU),
         .out_port = fmt::format("eth{}", nic),
         .first_seen = clock.now() - Duration{age},
         .bytes = {bytes},
         .packets = bytes / kPacket,
         .message_length = {random() % 100'000'000},
         .local_qpn = static_cast<std::uint32_t>(random() & 0xFFFFFFU),
         .pid = 100'000U + nic * given.jobs + i / kDevices % given.jobs,
         .label = fmt::format("slurm:{}.0", 1234 + i / kDevices % given.jobs),
         .label_origin = "cgroup",
         .peer = PeerOrigin::kernel,
         .seen_by = given.two_sources && random() % 2 == 0 ? "rdma" : ""});
  }
  Reporter reporter(clock.now() - std::chrono::seconds(1), false);
  return reporter.report(clock.now(), clock.wall(), reading, {});
}

int measure_report() {
  int result = 0;
  for (const ReportCase& one : kReportCases) {
    const Envelope envelope{"host1", 1, report_of(one)};
    const std::size_t octets = encode(envelope, {.columns_of_one = true}).size();
    fmt::print(
        "rdma_cost: a report of {} flows has {} octets (limit {}; seed {}; {} to a coordinator of "
        "the version before): {}\n",
        kFlows, octets, kReportOctets, kSeed, encode(envelope).size(), one.name);
    if (octets > kReportOctets)
      result = 1;
  }
  return result;
}

int measure() {
  Kernel kernel;
  const Files files;
  const Statistics statistics;
  Now clock;
  malloc_trim(0);
  const double before = resident_megabytes();
  RdmaObserver observer(kernel, files, statistics, clock, false);
  FlowMerger merger;
  Reporter reporter(clock.now(), false);
  // Half of them the kernel was seen to connect.
  std::vector<QpConnection> made;
  for (std::uint32_t d = 0; d < kDevices; ++d)
    for (std::uint32_t i = 0; i < kPairs / kDevices / 2; ++i)
      made.push_back({.device = d,
                      .qpn = 1000 + i,
                      .remote_qpn = 0x800000 + d * 0x10000 + i,
                      .destination = IpAddress::v4(10, 2, static_cast<std::uint8_t>(d), 2),
                      .flow_label = 0,
                      .port = 1,
                      .gid_index = 0,
                      .when = clock.now()});
  std::vector<double> times;
  std::size_t octets = 0;
  for (int round = 0; round < kRounds; ++round) {
    clock.time += std::chrono::seconds(1);
    const auto begin = std::chrono::steady_clock::now();
    const RdmaView& view = observer.look(clock.now(), made);
    const auto reading =
        merger.merge(fail(Errc::unobservable, "hardware"), view, true, clock.now());
    const Report report = reporter.report(clock.now(), clock.wall(), reading, {});
    octets = encode({"host1", 1, report}).size();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count());
    made.clear();
    if (report.flows.size() + report.queue_pairs.size() != kPairs) {
      fmt::print(stderr, "rdma_cost: {} flows and {} open queue pairs: nothing was measured\n",
                 report.flows.size(), report.queue_pairs.size());
      return 2;
    }
  }
  const double megabytes = resident_megabytes() - before;
  std::ranges::sort(times);
  const double median = times[times.size() / 2];
  fmt::print(
      "rdma_cost: {} queue pairs, from netlink to a report of {} octets: {:.1f} ms in the median, "
      "{:.1f} ms at most (limit {}); {:.1f} MB (limit {})\n",
      kPairs, octets, median, times.back(), kMilliseconds, megabytes, kMegabytes);
  return median <= kMilliseconds && megabytes <= kMegabytes ? 0 : 1;
}

}  // namespace
}  // namespace heddle

int main() {
  return std::max(heddle::measure(), heddle::measure_report());
}
