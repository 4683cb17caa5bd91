// What a machine with RDMA, or a leaf that samples, told is told again; the reports that come of it
// are the recorded ones, octet for octet. To record the reports again after a change that is meant:
//   HEDDLE_RECORD_EXPECTED=1 build/dev/tests/test_agent --gtest_filter='*Replay.*'
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "agent/observe/directory_tree.h"
#include "agent/observe/flow_merger.h"
#include "agent/observe/psample_message.h"
#include "agent/observe/rdma_observer.h"
#include "agent/observe/recorder.h"
#include "agent/observe/sampled_flows.h"
#include "agent/report/reporter.h"
#include "common/wire/codec.h"
#include "tests/agent/observe/fake_drivers.h"
#include "tests/agent/recorded_samples.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

class Player final : public RdmaChannel, public FileTree, public DriverStatistics, public Clock {
 public:
  explicit Player(fs::path recording) : recording_(std::move(recording)) {}

  // False after the last look.
  bool next_look() {
    look_ = recording_ / std::to_string(looks_++);
    if (!fs::exists(look_))
      return false;
    std::istringstream times(text_of(look_ / "time"));
    std::int64_t now = 0, wall = 0;
    times >> now >> wall;
    now_ = Time(Duration(now));
    wall_ = WallTime(Duration(wall));
    return true;
  }
  std::vector<QpConnection> connections() const {
    std::vector<QpConnection> result;
    std::istringstream lines(text_of(look_ / "connections"));
    QpConnection c;
    std::string address;
    std::int64_t when = 0;
    while (lines >> c.device >> c.qpn >> c.remote_qpn >> address >> c.flow_label >> c.port >>
           c.gid_index >> when) {
      c.destination = IpAddress::parse(address).value();
      c.when = Time(Duration(when));
      result.push_back(c);
    }
    return result;
  }

  Result<std::vector<std::byte>> exchange(const RdmaRequest& request) override {
    const fs::path file = look_ / "netlink" / recorded_name(request);
    if (!fs::exists(file))
      return fail(Errc::timeout, "not recorded");
    const std::string text = text_of(file);
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }
  Result<std::vector<std::byte>> announced() override {
    const std::string text = text_of(look_ / "netlink/announced");
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }
  void let_go() override {}
  std::vector<std::string> list(const std::string& folder) const override {
    return DirectoryTree(look_ / "sys").list(folder);
  }
  Result<std::string> read(const std::string& file) const override {
    return DirectoryTree(look_ / "sys").read(file);
  }
  Result<std::vector<NamedCount>> statistics(const std::string& interface) const override {
    std::istringstream lines(text_of(look_ / "ethtool" / interface));
    std::vector<NamedCount> counts;
    NamedCount count;
    while (lines >> count.value >> std::ws && std::getline(lines, count.name))
      counts.push_back(count);
    if (counts.empty())
      return fail(Errc::unobservable, "not recorded");
    return counts;
  }
  Time now() const override { return now_; }
  WallTime wall() const override { return wall_; }

 private:
  fs::path recording_;
  fs::path look_;
  int looks_{};
  Time now_;
  WallTime wall_;
};

const fs::path kSoftRoce = test::recording("soft-roce-6.12");

std::vector<Report> replay(const fs::path& recording) {
  Player player(recording);
  std::optional<RdmaObserver> observer;
  std::optional<Reporter> reporter;
  FlowMerger merger;
  std::vector<Report> reports;
  while (player.next_look()) {
    if (!observer) {
      observer.emplace(player, player, player, player, false);
      reporter.emplace(player.now(), false);
    }
    const RdmaView& view = observer->look(player.now(), player.connections());
    // Nobody recorded the packets.
    const auto reading = merger.merge(fail(Errc::unobservable, "not recorded"), view,
                                      observer->capability().usable, player.now());
    reports.push_back(reporter->report(player.now(), player.wall(), reading, {}));
  }
  return reports;
}

std::string octets_of(const std::vector<Report>& reports) {
  std::string all;
  for (const Report& report : reports) {
    const std::vector<std::byte> bytes = encode({"recorded", report.number, report});
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

void expect_octets(const std::vector<Report>& reports, const fs::path& expected) {
  const std::string all = octets_of(reports);
  if (std::getenv("HEDDLE_RECORD_EXPECTED") != nullptr)
    std::ofstream(expected, std::ios::binary) << all;
  EXPECT_TRUE(all == text_of(expected)) << "the reports changed";
}

TEST(RdmaReplay, OfSoftRoceGivesTheExpectedReportsOctetForOctet) {
  expect_octets(replay(kSoftRoce), kSoftRoce / "expected");
}

// A leaf's samples of one ib_write_bw, half of them in each of two intervals.
TEST(PsampleReplay, GivesTheExpectedReportsOctetForOctet) {
  const fs::path folder = test::recording("sampled-soft-roce-6.12");
  const auto messages = test::recorded_samples(folder);
  ASSERT_GE(messages.size(), 20U);
  SampledFlows flows;
  Time now(std::chrono::seconds(100));
  Reporter reporter(now, true);
  std::vector<Report> reports;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto sample = parse_sample(messages[i]);
    ASSERT_TRUE(sample);
    flows.watch({{sample->out_port, "up1"}}, {});
    flows.add(*sample, now);
    if (i + 1 == messages.size() / 2 || i + 1 == messages.size()) {
      now += std::chrono::seconds(1);
      reports.push_back(
          reporter.report(now, WallTime(now.time_since_epoch()), flows.read(now), {}));
    }
  }
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].flows.size(), 1U);
  EXPECT_EQ(reports[1].flows.size(), 1U);
  expect_octets(reports, folder / "expected");
}

// Records again what a recording tells, on a machine whose drivers count besides.
class RecordAgain : public ::testing::Test {
 protected:
  RecordAgain() {
    std::string pattern = (fs::temp_directory_path() / "heddle-record-XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr)
      folder = pattern;
  }
  ~RecordAgain() override { fs::remove_all(folder); }

  // After each look each counter has grown by 10.
  void record(FakeDrivers drivers) const {
    Player player(kSoftRoce);
    Recorder recorder(folder, player, player, drivers);
    std::optional<RdmaObserver> observer;
    while (player.next_look()) {
      if (!observer)
        observer.emplace(recorder.channel(), recorder.files(), recorder.statistics(), player,
                         false);
      ASSERT_TRUE(recorder.next_look(player, player.connections()));
      observer->look(player.now(), player.connections());
      for (auto& [interface, counts] : drivers.counts)
        for (NamedCount& count : counts)
          count.value += 10;
    }
    ASSERT_TRUE(recorder.written());
  }

  fs::path folder;
};

TEST_F(RecordAgain, GivesTheExpectedReportsOctetForOctet) {
  record({});
  EXPECT_TRUE(octets_of(replay(folder)) == text_of(kSoftRoce / "expected"));
}

// Soft-RoCE's interfaces count no pauses; those here have mlx5's names.
TEST_F(RecordAgain, KeepsPausesAsSynthesisedFromTheDriver) {
  FakeDrivers drivers;
  drivers.counts["e1"] = {{"a name with spaces", 1}, {"rx_prio3_pause", 5}, {"tx_prio3_pause", 2}};
  record(drivers);
  const std::vector<Report> reports = replay(folder);
  ASSERT_EQ(reports.size(), 3U);
  const RdmaPortCounts& e1 = reports[1].rdma_ports.at(0);
  ASSERT_EQ(e1.netdev, "e1");
  for (const char* name : {"pause_received", "pause_sent"}) {
    const auto pauses = std::ranges::find(e1.counts, name, &PortCount::name);
    ASSERT_NE(pauses, e1.counts.end()) << name;
    EXPECT_EQ(pauses->value, 10U) << name;
  }
  for (const PortCount& count : reports[1].rdma_ports.at(1).counts)
    EXPECT_FALSE(count.name.starts_with("pause")) << "e2's driver counts none";
}

// What `rdma resource show qp`, `rdma resource show cm_id` and a capture said beside it.
TEST(RdmaReplay, OfSoftRoceShowsWhatTheToolsShowed) {
  const std::vector<Report> reports = replay(kSoftRoce);
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_TRUE(reports[0].flows.empty());
  ASSERT_EQ(reports[0].rdma_ports.size(), 4U);
  EXPECT_EQ(reports[0].rdma_ports[0].device, "rxe1");
  EXPECT_EQ(reports[0].rdma_ports[0].netdev, "e1");

  // One pair without rdma_cm, two with it (one for perftest's own exchange), two ends each.
  ASSERT_EQ(reports[1].flows.size(), 6U);
  const auto flow = [&](const IpAddress& from, std::uint32_t qpn) {
    const auto found = std::ranges::find_if(reports[1].flows, [&](const FlowDelta& delta) {
      return delta.key.source == from && delta.local_qpn == qpn;
    });
    EXPECT_NE(found, reports[1].flows.end());
    return *found;
  };
  const FlowDelta plain = flow(IpAddress::v4(10, 1, 1, 2), 17);
  EXPECT_EQ(plain.key.destination, IpAddress::v4(10, 2, 1, 2));
  EXPECT_EQ(plain.key.dest_qpn, 17U);
  EXPECT_EQ(plain.pid, 385U);
  EXPECT_EQ(plain.peer, PeerOrigin::kernel);
  // 17 * 17 = 289 = 0x121.
  EXPECT_EQ(plain.key.source_port, 0xC121);
  EXPECT_TRUE(plain.unobservable);

  const FlowDelta by_cm = flow(IpAddress::v4(10, 1, 2, 2), 18);
  EXPECT_EQ(by_cm.key.destination, IpAddress::v4(10, 2, 2, 2));
  EXPECT_EQ(by_cm.pid, 386U);
  // rdma_cm's ports 41307 and 18602: 41307 * 31 + 18602 = 0x13d2af; & 0xfffff = 0x3d2af, folded.
  EXPECT_EQ(by_cm.key.source_port, 0xD2A0);
  EXPECT_EQ(flow(IpAddress::v4(10, 2, 2, 2), 18).key.source_port, 0xD2A0) << "at both ends";
}

}  // namespace
}  // namespace heddle
