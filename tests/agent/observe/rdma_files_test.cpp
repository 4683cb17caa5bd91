#include "agent/observe/rdma_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "agent/observe/directory_tree.h"
#include "agent/report/port_deltas.h"
#include "tests/agent/observe/recorded_trees.h"
#include "tests/tree.h"

namespace heddle {
namespace {

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

std::optional<std::uint64_t> value(const std::vector<CounterValue>& counters,
                                   const std::string& name) {
  for (const CounterValue& counter : counters)
    if (counter.name == name)
      return counter.value;
  return std::nullopt;
}

TEST(RdmaFiles, PortDataIsInUnitsOfFourOctets) {
  Files files;
  files.files["mlx5_0/ports/1/counters/port_xmit_data"] = "1000";
  files.files["mlx5_0/ports/1/counters/port_rcv_data"] = "10000000000";
  const auto counters = read_port_counters(files, "mlx5_0", 1);
  EXPECT_EQ(value(counters, "tx_bytes"), 4000U);
  EXPECT_EQ(value(counters, "rx_bytes"), 40000000000U);
}

TEST(SafetyRule7, ACounterThatTheDriverDoesNotOfferIsUnobservable) {
  Files files;
  files.files["mlx4_0/ports/1/counters/port_xmit_data"] = "N/A (no PMA)";
  files.files["mlx4_0/ports/1/counters/port_rcv_data"] = "";
  EXPECT_TRUE(read_port_counters(files, "mlx4_0", 1).empty());
  for (const char* text :
       {"N/A (no PMA)", "", " 1", "1 ", "-1", "0x10", "1e3", "99999999999999999999"})
    EXPECT_FALSE(parse_count(text)) << text;
}

// 2^32 - 1 is where a counter of 32 bits stands still.
TEST(SafetyRule7, ASaturatedCounterIsUnobservable) {
  Files files;
  files.files["mlx4_0/ports/1/counters/port_xmit_data"] = "4294967295";
  files.files["mlx4_0/ports/1/counters/port_rcv_data"] = "4294967294";
  const auto counters = read_port_counters(files, "mlx4_0", 1);
  EXPECT_FALSE(value(counters, "tx_bytes"));
  EXPECT_EQ(value(counters, "rx_bytes"), std::uint64_t{4} * 4294967294U);
  // More than can be told in octets.
  files.files["mlx4_0/ports/1/counters/port_rcv_data"] = "18446744073709551615";
  EXPECT_FALSE(value(read_port_counters(files, "mlx4_0", 1), "rx_bytes"));
}

// From one reading to the next a driver is reloaded: the file is not there for a moment.
TEST(SafetyRule7, ACounterWhoseFileVanishesIsUnobservableMeanwhile) {
  Files files;
  const std::string file = "mlx5_0/ports/1/counters/port_xmit_data";
  PortDeltas deltas;
  Time now;
  const auto counted = [&] {
    now += std::chrono::seconds(1);
    return deltas
        .since_last({{.device = "mlx5_0",
                      .port = 1,
                      .netdev = "eth0",
                      .guid = 7,
                      .hidden = false,
                      .counters = read_port_counters(files, "mlx5_0", 1)}},
                    now)
        .at(0)
        .counts;
  };
  files.files[file] = "100";
  counted();
  files.files.erase(file);
  EXPECT_TRUE(counted().empty());
  files.files[file] = "5";
  EXPECT_TRUE(counted().empty()) << "nobody knows since when";
  files.files[file] = "10";
  EXPECT_EQ(counted(), (std::vector<PortCount>{{"tx_bytes", 20, false}}));
}

// Each driver calls the evidence of congestion by names of its own.
TEST(RdmaFiles, TellCongestionByEachDriversNames) {
  Files mlx5;
  mlx5.files["mlx5_0/ports/1/hw_counters/np_cnp_sent"] = "1";
  mlx5.files["mlx5_0/ports/1/hw_counters/rp_cnp_handled"] = "2";
  mlx5.files["mlx5_0/ports/1/hw_counters/np_ecn_marked_roce_packets"] = "3";
  mlx5.files["mlx5_0/ports/1/hw_counters/out_of_sequence"] = "4";
  const auto of_mlx5 = read_port_counters(mlx5, "mlx5_0", 1);
  EXPECT_EQ(value(of_mlx5, "cnp_sent"), 1U);
  EXPECT_EQ(value(of_mlx5, "cnp_handled"), 2U);
  EXPECT_EQ(value(of_mlx5, "ecn_marked"), 3U);
  EXPECT_EQ(value(of_mlx5, "out_of_sequence"), 4U);
  for (const CounterValue& counter : of_mlx5)
    EXPECT_TRUE(counter.wraps) << counter.name;
  Files rxe;
  rxe.files["rxe1/ports/1/hw_counters/out_of_seq_request"] = "5";
  EXPECT_EQ(value(read_port_counters(rxe, "rxe1", 1), "out_of_sequence"), 5U);
}

TEST(RdmaFiles, TellAddresses) {
  EXPECT_EQ(parse_gid("0000:0000:0000:0000:0000:ffff:0a01:0102"), IpAddress::v4(10, 1, 1, 2));
  EXPECT_EQ(parse_gid("fe80:0000:0000:0000:0242:0aff:fe01:0102"),
            *IpAddress::parse("fe80::242:aff:fe01:102"));
  for (const char* text :
       {"", "0000:0000:0000:0000:0000:0000:0000:0000", "0000:0000:0000:0000:0000:ffff:0a01",
        "0000:0000:0000:0000:0000:ffff:0a01-0102", "0000:0000:0000:0000:0000:ffff:0a01:010g"})
    EXPECT_FALSE(parse_gid(text)) << text;
}

TEST(RdmaFiles, TakeAddressesOfRoceV2Alone) {
  Files files;
  const auto entry = [&](int index, const std::string& gid, const std::string& type) {
    files.files[fmt::format("rxe1/ports/1/gids/{}", index)] = gid;
    files.files[fmt::format("rxe1/ports/1/gid_attrs/types/{}", index)] = type;
  };
  entry(0, "fe80:0000:0000:0000:0242:0aff:fe01:0102", "IB/RoCE v1");
  entry(1, "0000:0000:0000:0000:0000:ffff:0a01:0102", "RoCE v2");
  // A hole where an address went.
  entry(9, "0000:0000:0000:0000:0000:ffff:0a01:0202", "RoCE v2");
  RdmaDevice device;
  device.index = 2;
  device.name = "rxe1";
  const auto addresses = read_addresses(files, device, 1);
  ASSERT_EQ(addresses.size(), 2U);
  EXPECT_EQ(addresses[0], (RdmaAddress{2, 1, 1, IpAddress::v4(10, 1, 1, 2)}));
  EXPECT_EQ(addresses[1].gid_index, 9U);
}

// A file that others recorded; nothing if it is not at hand, and then what the project ships is
// read.
std::optional<std::filesystem::path> recorded(const std::string& file) {
  const char* const data = std::getenv("HEDDLE_DATA");
  const std::filesystem::path path = std::filesystem::path(data == nullptr ? "" : data) / file;
  if (std::filesystem::exists(path))
    return path;
  std::printf("HEDDLE_DATA has no %s: on what the project ships only\n", file.c_str());
  const DirectoryTree own(std::filesystem::path(HEDDLE_SOURCE_DIR) /
                          "tests/agent/recordings/soft-roce-6.12/0/sys");
  EXPECT_EQ(value(read_port_counters(own, "rxe1", 1), "out_of_sequence"), 0U);
  EXPECT_FALSE(value(read_port_counters(own, "rxe1", 1), "tx_bytes"));
  return std::nullopt;
}

// The tree of a machine with an hfi1, an mlx4 and an mlx5 device, as node exporters are tested
// with.
TEST(RdmaFiles, OfRealMachinesAreUnderstood) {
  const auto archive = recorded("procfs/sys_class_infiniband.ttar");
  if (!archive)
    return;
  Files files;
  files.files = unpack(*archive, "fixtures/sys/class/infiniband/");
  ASSERT_GT(files.files.size(), 50U);
  const auto hfi1 = read_port_counters(files, "hfi1_0", 1);
  EXPECT_EQ(value(hfi1, "rx_bytes"), 4U * 345091702026U);
  const auto mlx4 = read_port_counters(files, "mlx4_0", 1);
  EXPECT_TRUE(value(mlx4, "tx_bytes"));
  for (const char* device : {"hfi1_0", "mlx4_0", "mlx5_0"})
    EXPECT_FALSE(is_software(files, device));
}

// "PortXmitData:......36298026860928" is what sysfs shows as counters/port_xmit_data.
std::map<std::string, std::string> files_of_perfquery(const std::filesystem::path& output) {
  std::map<std::string, std::string> files;
  std::ifstream in(output);
  std::string port;
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(":.");
    if (colon == std::string::npos)
      continue;
    const std::string name = line.substr(0, colon);
    const std::string text = line.substr(line.find_first_not_of('.', colon + 1));
    if (name == "PortSelect")
      port = text;
    std::string file;
    for (const char c : name) {
      if (std::isupper(static_cast<unsigned char>(c)) != 0 && !file.empty())
        file += '_';
      file += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    files[fmt::format("mlx5_0/ports/{}/counters/{}", port, file)] = text;
  }
  return files;
}

// Both ports of a machine on InfiniBand, as an exporter of such counters is tested with: far beyond
// 32 bits.
TEST(RdmaFiles, CountWhatRealPortsHaveCountedForMonths) {
  const auto output = recorded("infiniband_exporter/perfquery-x_2ports.out");
  if (!output)
    return;
  Files files;
  files.files = files_of_perfquery(*output);
  ASSERT_GT(files.files.size(), 40U);
  EXPECT_EQ(read_port_counters(files, "mlx5_0", 1),
            (std::vector<CounterValue>{{"rx_bytes", 4U * 12279028775751, false},
                                       {"tx_bytes", 4U * 36298026860928, false},
                                       {"tx_wait", 22730501, false}}));
  EXPECT_EQ(read_port_counters(files, "mlx5_0", 2),
            (std::vector<CounterValue>{{"rx_bytes", 4U * 39078804993378, false},
                                       {"tx_bytes", 4U * 26006570014026, false},
                                       {"tx_wait", 36510964, false}}));
}

}  // namespace
}  // namespace heddle
