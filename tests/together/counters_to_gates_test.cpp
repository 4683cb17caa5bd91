// From the counters that drivers of RDMA show in sysfs, by an agent's reports on the wire, to the
// gates of a roll-out: what one program writes and the other judges.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "agent/observe/directory_tree.h"
#include "agent/observe/rdma_files.h"
#include "agent/report/reporter.h"
#include "common/wire/codec.h"
#include "coordinator/decide/gates.h"
#include "tests/agent/observe/recorded_trees.h"
#include "tests/tree.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class Files final : public FileTree {
 public:
  std::map<std::string, std::string> files;
  std::vector<std::string> list(const std::string&) const override { return {}; }
  Result<std::string> read(const std::string& file) const override {
    const auto found = files.find(file);
    if (found == files.end())
      return fail(Errc::not_found, file);
    return found->second;
  }
};

// A host with one RDMA device, looked at once a second.
class CountersToGates : public ::testing::Test {
 protected:
  void look(const FileTree& tree, const std::string& device) {
    now_ += 1s;
    FlowReading reading{.source = "rdma", .gap = false, .flows = {}};
    reading.rdma_ports = {{.device = device,
                           .port = 1,
                           .netdev = "eth0",
                           .guid = 7,
                           .hidden = false,
                           .counters = read_port_counters(tree, device, 1)}};
    reading.rdma_looked = now_;
    const Report report = reporter_.report(now_, WallTime(now_.time_since_epoch()), reading, {});
    const auto heard = decode(encode({.node = "h1-1", .sequence = 1, .message = report}));
    ASSERT_TRUE(heard) << heard.error().message;
    watch_.add("h1-1", std::get<Report>(heard->message), now_);
  }
  Measures measured(Time since) const { return {.jobs = {}, .hosts = {{"h1-1", rates(since)}}}; }
  ErrorRates rates(Time since) const { return watch_.rates("h1-1", since, now_); }
  // What this second is judged as, by the ones before the wave.
  static Gate gate(const std::string& name, const Measures& before, const Measures& now) {
    for (Gate& one : judge_traffic({}, before, now))
      if (one.name == name)
        return one;
    return {};
  }
  Time now_{1000s};
  Reporter reporter_{now_, false};
  ErrorWatch watch_;
};

// Three looks at a Soft-RoCE device: as it was, after two acknowledgements had not come in time,
// and after nothing more.
TEST_F(CountersToGates, SoftRoceThatWaitedForAcknowledgementsIsSeenByTheGate) {
  const std::filesystem::path recording =
      std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests/agent/recordings/soft-roce-6.12";
  const auto look_at = [&](int number) {
    look(DirectoryTree(recording / std::to_string(number) / "sys"), "rxe1");
  };
  look_at(0);
  EXPECT_EQ(rates({}), ErrorRates{}) << "the first look says nothing of what is to come";
  const Time quiet = now_;
  look_at(0);
  const Measures before = measured(quiet);
  EXPECT_EQ(before.hosts.at("h1-1").retransmissions, 0.0);
  EXPECT_EQ(before.hosts.at("h1-1").out_of_sequence, 0.0);
  const Time wave = now_;
  look_at(1);
  const Gate bad = gate("retransmissions", before, measured(wave));
  EXPECT_EQ(bad.verdict, Verdict::bad);
  EXPECT_EQ(bad.seen, "h1-1: 0.0 /s before, 2.0 /s now (1.0 /s more allowed)");
  EXPECT_EQ(gate("out-of-sequence", before, measured(wave)).verdict, Verdict::good);
  const Time after = now_;
  look_at(2);
  EXPECT_EQ(gate("retransmissions", before, measured(after)).verdict, Verdict::good);
}

// The tree that node exporters are tested with has an mlx5 device whose counters stand where years
// of work brought them, and an mlx4 and an hfi1 that count nothing of the kind.
TEST_F(CountersToGates, DevicesOfRealMachinesAreJudgedByWhatTheyCount) {
  const char* const data = std::getenv("HEDDLE_DATA");
  const std::filesystem::path archive =
      std::filesystem::path(data == nullptr ? "" : data) / "procfs/sys_class_infiniband.ttar";
  if (!std::filesystem::exists(archive))
    GTEST_SKIP() << "HEDDLE_DATA has no procfs/sys_class_infiniband.ttar";
  Files tree;
  tree.files = unpack(archive, "fixtures/sys/class/infiniband/");
  const std::string counters = "mlx5_0/ports/1/hw_counters/";
  ASSERT_EQ(tree.files.at(counters + "local_ack_timeout_err"), "131");
  look(tree, "mlx5_0");
  const Time quiet = now_;
  look(tree, "mlx5_0");
  const Measures before = measured(quiet);
  EXPECT_EQ(before.hosts.at("h1-1").retransmissions, 0.0)
      << "what was counted before anybody looked is not of this second";
  EXPECT_EQ(before.hosts.at("h1-1").out_of_sequence, 0.0);

  Time wave = now_;
  tree.files[counters + "local_ack_timeout_err"] = "171";
  tree.files[counters + "packet_seq_err"] = "3";
  look(tree, "mlx5_0");
  EXPECT_EQ(gate("retransmissions", before, measured(wave)).seen,
            "h1-1: 0.0 /s before, 42.0 /s now (1.0 /s more allowed)");
  EXPECT_EQ(gate("out-of-sequence", before, measured(wave)).verdict, Verdict::good);
  wave = now_;
  tree.files[counters + "out_of_sequence"] = "90";
  look(tree, "mlx5_0");
  EXPECT_EQ(gate("retransmissions", before, measured(wave)).verdict, Verdict::good);
  EXPECT_EQ(gate("out-of-sequence", before, measured(wave)).verdict, Verdict::bad);

  // Safety rule 7: counters that are not there are not zero.
  for (const char* device : {"mlx4_0", "hfi1_0"}) {
    wave = now_;
    look(tree, device);
    look(tree, device);
    EXPECT_EQ(rates(wave), ErrorRates{}) << device;
    const Gate blind = gate("retransmissions", before, measured(wave));
    EXPECT_EQ(blind.verdict, Verdict::unobservable) << device;
    EXPECT_THAT(blind.seen, HasSubstr("not seen: h1-1"));
  }
}

}  // namespace
}  // namespace heddle
