// From looks at a host's queue pairs to its reports: what a look could not read, or what a counter
// had counted before anybody looked, is the traffic of no interval.
#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "agent/observe/flow_merger.h"
#include "agent/observe/rdma_inventory.h"
#include "agent/report/reporter.h"
#include "tests/agent/observe/rdma_builder.h"

namespace heddle {
namespace {

using std::chrono::seconds;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
constexpr std::uint64_t kMany = 2048 * kGiB;

// One device with one queue pair, connected at 0 s; each call looks one second later.
class RdmaReport : public ::testing::Test {
 protected:
  RdmaReport() { inventory_.connected(std::vector{test::connection(178, 200, Time{})}); }

  // What a look finds where the pair's counter says so much; without a value it has none.
  static RdmaLook sight(std::optional<std::uint64_t> bytes, std::vector<std::uint32_t> of = {178}) {
    RdmaLook look;
    look.devices = {{.index = 3, .name = "mlx5_0", .node_guid = 7, .ports = 1, .protocol = "roce"}};
    look.ports = {{.device = 3, .port = 1, .active = true, .ifindex = 5, .netdev = "eth0"}};
    look.queue_pairs = {test::connected(3, 178, 200, 197)};
    look.addresses = {{3, 1, 1, IpAddress::v4(10, 1, 1, 2)}};
    if (bytes) {
      look.counters = {{.device = 3,
                        .port = 1,
                        .id = 9,
                        .automatic = false,
                        .qpns = std::move(of),
                        .values = {{"rdma_tx_bytes", *bytes}, {"rdma_tx_packets", *bytes / 1024}}}};
    }
    return look;
  }
  static RdmaLook without_queue_pairs() {
    RdmaLook look = sight(std::nullopt);
    look.queue_pairs.clear();
    look.incomplete = true;
    return look;
  }
  static RdmaLook without_counters() {
    RdmaLook look = sight(std::nullopt);
    look.uncounted = {3};
    return look;
  }

  Report report(const RdmaLook& look) {
    now_ += seconds(1);
    view_ = inventory_.update(look, now_);
    return told();
  }
  // The kernel gave no answer at all; packets are seen all the same.
  Report report_of_nothing() {
    now_ += seconds(1);
    view_ = {};
    view_.gap = true;
    return told();
  }
  // The one row, which counted so much.
  static void expect_counted(const Report& report, std::uint64_t bytes) {
    ASSERT_EQ(report.flows.size(), 1U);
    EXPECT_FALSE(report.flows[0].unobservable);
    EXPECT_EQ(report.flows[0].bytes, Bytes{bytes});
    EXPECT_EQ(report.flows[0].packets, bytes / 1024);
    EXPECT_FALSE(report.flows[0].reset);
  }
  static void expect_unobservable(const Report& report) {
    ASSERT_EQ(report.flows.size(), 1U) << "it is there";
    EXPECT_TRUE(report.flows[0].unobservable);
    EXPECT_EQ(report.flows[0].bytes, Bytes{});
  }
  // A first look finds the pair without a counter, and it is given one.
  void count_from_the_beginning(std::uint64_t bytes) {
    expect_unobservable(report(sight(std::nullopt)));
    expect_counted(report(sight(bytes)), bytes);
  }

 private:
  Report told() {
    const FlowReading packets{.source = "ebpf", .gap = false, .flows = {}};
    return reporter_.report(now_, WallTime{now_.time_since_epoch()},
                            merger_.merge(packets, view_, true, now_), {});
  }

  RdmaInventory inventory_;
  FlowMerger merger_;
  Reporter reporter_{Time{}, false};
  RdmaView view_;
  Time now_{};
};

using SafetyRule7RdmaReport = RdmaReport;

TEST_F(SafetyRule7RdmaReport, AfterACutDumpOfQueuePairsACounterGoesOnFromWhatWasReportedOfIt) {
  count_from_the_beginning(kMany);
  for (int look = 0; look < 3; ++look) {
    const Report cut = report(without_queue_pairs());
    EXPECT_TRUE(cut.gap);
    EXPECT_TRUE(cut.flows.empty());
  }
  expect_counted(report(sight(kMany + 4 * kGiB)), 4 * kGiB);
}

TEST_F(SafetyRule7RdmaReport, AfterALookWithoutAnAnswerACounterGoesOnFromWhatWasReportedOfIt) {
  count_from_the_beginning(kMany);
  EXPECT_TRUE(report_of_nothing().gap);
  expect_counted(report(sight(kMany + 2 * kGiB)), 2 * kGiB);
}

TEST_F(SafetyRule7RdmaReport, AfterACutDumpOfCountersACounterGoesOnFromWhatWasReportedOfIt) {
  count_from_the_beginning(kMany);
  expect_unobservable(report(without_counters()));
  expect_unobservable(report(without_counters()));
  expect_counted(report(sight(kMany + 3 * kGiB)), 3 * kGiB);
}

// Somebody else's, or that of an agent that was killed.
TEST_F(SafetyRule7RdmaReport, ACounterThatWasThereBeforeCountsFromWhenItWasFirstRead) {
  expect_unobservable(report(sight(kMany)));
  expect_counted(report(sight(kMany + kGiB)), kGiB);
}

// The first look could not tell that there is one.
TEST_F(SafetyRule7RdmaReport, ACounterThatTheFirstLookDidNotReadCountsFromWhenItWasFirstRead) {
  expect_unobservable(report(without_counters()));
  expect_unobservable(report(sight(kMany)));
  expect_counted(report(sight(kMany + kGiB)), kGiB);
}

TEST_F(SafetyRule7RdmaReport, ACounterThatWasSharedCountsFromWhenItIsTheQueuePairsOwn) {
  expect_unobservable(report(sight(kMany, {178, 179})));
  expect_unobservable(report(sight(kMany)));
  expect_counted(report(sight(kMany + kGiB)), kGiB);
}

// To unbind a counter sets it to zero: it is no gap if another one is bound later.
TEST_F(SafetyRule7RdmaReport, ACounterThatWasTakenAwayAndBoundAgainBeginsWithZero) {
  count_from_the_beginning(kMany);
  expect_unobservable(report(sight(std::nullopt)));
  expect_counted(report(sight(kGiB)), kGiB);
}

}  // namespace
}  // namespace heddle
