// What the history costs on disk: reports of 2,112 nodes, every flow seen by its host and by its
// leaf, as many seconds as are asked for, written to a real database and weighed after it was
// closed.
//
//   heddle-history-size [SECONDS]
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <vector>

#include "coordinator/history/rocksdb_history.h"

namespace heddle::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kLeaves = 64;
constexpr int kHosts = 32;  // of a leaf; one flow each

std::uintmax_t size_of(const std::filesystem::path& folder) {
  std::uintmax_t size = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      size += entry.file_size();
  return size;
}

FlowDelta flow(int number, std::mt19937_64& random, std::string out_port) {
  FlowDelta delta;
  const auto part = [](int value) { return static_cast<std::uint8_t>(value); };
  delta.key.source = IpAddress::v4(10, part(number / kHosts + 1), part(number % kHosts + 1), 2);
  delta.key.destination =
      IpAddress::v4(10, part((number / kHosts + 7) % kLeaves + 1), part(number % kHosts + 1), 2);
  delta.key.source_port = static_cast<std::uint16_t>(49152 + number);
  delta.key.dest_qpn = static_cast<std::uint32_t>(1000 + number);
  // Rates of 40 Gbit/s, give or take: counters are as hard to compress as real ones.
  delta.bytes = Bytes{4'900'000'000 + random() % 200'000'000};
  delta.packets = delta.bytes.value / 4096;
  delta.message_length = Bytes{1 << 24};
  delta.out_port = std::move(out_port);
  delta.source = "ebpf";
  return delta;
}

int run(int seconds) {
  constexpr std::uint64_t kSeed = 1;
  std::mt19937_64 random(kSeed);
  std::string name = (std::filesystem::temp_directory_path() / "heddle-size-XXXXXX").string();
  const std::filesystem::path folder = ::mkdtemp(name.data());
  std::uint64_t written = 0;
  {
    RocksDbHistory history({.folder = folder / "history"}, [](const std::function<void()>&) {});
    WallTime wall(1700000000s);
    for (int second = 0; second < seconds; ++second, wall += 1s) {
      Report report;
      report.number = static_cast<std::uint64_t>(second);
      report.length = 1s;
      for (int leaf = 0; leaf < kLeaves; ++leaf) {
        Report of_leaf = report;
        for (int host = 0; host < kHosts; ++host) {
          const int number = leaf * kHosts + host;
          report.flows = {flow(number, random, {})};
          history.keep(wall, fmt::format("h{}-{}", leaf + 1, host + 1), report);
          of_leaf.flows.push_back(flow(number, random, fmt::format("up{}", host + 1)));
        }
        history.keep(wall, fmt::format("leaf{}", leaf + 1), of_leaf);
      }
      history.drain();
    }
    written = history.status().written;
    if (!history.status().ok || history.status().dropped != 0) {
      std::fprintf(stderr, "not all was kept: %s\n", history.status().reason.c_str());
      return 1;
    }
  }
  const auto bytes = static_cast<double>(size_of(folder));
  std::filesystem::remove_all(folder);
  const double each = bytes / seconds / (kLeaves * kHosts);
  fmt::print("{} flows for {} s, seed {}: {} reports, {:.1f} MB on disk\n", kLeaves * kHosts,
             seconds, kSeed, written, bytes / 1e6);
  fmt::print("{:.0f} bytes for a flow and second, {:.1f} MB for a flow and day, {:.0f} GB a day\n",
             each, each * 86400 / 1e6, each * 86400 * kLeaves * kHosts / 1e9);
  return 0;
}

}  // namespace
}  // namespace heddle::testing

int main(int argc, char** argv) {
  return heddle::testing::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 60);
}
