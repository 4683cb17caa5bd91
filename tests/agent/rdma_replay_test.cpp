// What a machine with RDMA told is told again; the reports that come of it are the recorded ones,
// octet for octet. To record the reports again after a change that is meant:
//   HEDDLE_RECORD_EXPECTED=1 build/dev/tests/test_agent --gtest_filter='RdmaReplay.*'
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/observe/directory_tree.h"
#include "agent/observe/flow_merger.h"
#include "agent/observe/rdma_observer.h"
#include "agent/observe/recorder.h"
#include "agent/report/reporter.h"
#include "common/wire/codec.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

const fs::path kRecordings = fs::path(HEDDLE_SOURCE_DIR) / "tests/agent/recordings";

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

class Player final : public RdmaChannel, public FileTree, public Clock {
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
  std::vector<std::string> list(const std::string& folder) const override {
    return DirectoryTree(look_ / "sys").list(folder);
  }
  Result<std::string> read(const std::string& file) const override {
    return DirectoryTree(look_ / "sys").read(file);
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

std::vector<Report> replay(const std::string& name) {
  Player player(kRecordings / name);
  std::optional<RdmaObserver> observer;
  std::optional<Reporter> reporter;
  FlowMerger merger;
  std::vector<Report> reports;
  while (player.next_look()) {
    if (!observer) {
      observer.emplace(player, player, player, false);
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

TEST(RdmaReplay, OfSoftRoceGivesTheExpectedReportsOctetForOctet) {
  std::string all;
  for (const Report& report : replay("soft-roce-6.12")) {
    const std::vector<std::byte> bytes = encode({"recorded", report.number, report});
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const fs::path expected = kRecordings / "soft-roce-6.12/expected";
  if (std::getenv("HEDDLE_RECORD_EXPECTED") != nullptr)
    std::ofstream(expected, std::ios::binary) << all;
  EXPECT_TRUE(all == text_of(expected)) << "the reports changed";
}

// What `rdma resource show qp`, `rdma resource show cm_id` and a capture said beside it.
TEST(RdmaReplay, OfSoftRoceShowsWhatTheToolsShowed) {
  const std::vector<Report> reports = replay("soft-roce-6.12");
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
