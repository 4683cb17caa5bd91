#include "agent/observe/rdma_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace heddle {
namespace {

constexpr std::uint64_t kEndOf32Bits = 0xFFFFFFFF;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

// The kernel fills a port's table of addresses from the front, leaving holes where some went; the
// table may be much longer.
constexpr std::uint32_t kEmptyGids = 16;
constexpr std::uint32_t kMostGids = 1024;

struct CounterFile {
  std::string_view file;  // below the port
  std::string_view name;  // in reports
  std::uint64_t unit{1};  // in octets or events
  // Classical counters of a port stay at their end. Drivers' own begin again where they have 32
  // bits.
  bool stays{};
};

// InfiniBand's counters, which RoCE drivers offer too; and each driver's names for what a lossless
// Ethernet tells of congestion (mlx5, irdma, bnxt_re, hns, rxe).
constexpr std::array kFiles{
    CounterFile{"counters/port_xmit_data", "tx_bytes", 4, true},
    CounterFile{"counters/port_rcv_data", "rx_bytes", 4, true},
    CounterFile{"counters/port_xmit_wait", "tx_wait", 1, true},
    CounterFile{"hw_counters/np_cnp_sent", "cnp_sent"},
    CounterFile{"hw_counters/cnpSent", "cnp_sent"},
    CounterFile{"hw_counters/tx_cnp_pkts", "cnp_sent"},
    CounterFile{"hw_counters/tx_cnp", "cnp_sent"},
    CounterFile{"hw_counters/rp_cnp_handled", "cnp_handled"},
    CounterFile{"hw_counters/cnpHandled", "cnp_handled"},
    CounterFile{"hw_counters/rx_cnp_pkts", "cnp_handled"},
    CounterFile{"hw_counters/rx_cnp", "cnp_handled"},
    CounterFile{"hw_counters/np_ecn_marked_roce_packets", "ecn_marked"},
    CounterFile{"hw_counters/RxECNMrkd", "ecn_marked"},
    CounterFile{"hw_counters/rx_ecn_marked_pkts", "ecn_marked"},
    CounterFile{"hw_counters/out_of_sequence", "out_of_sequence"},
    CounterFile{"hw_counters/out_of_seq_request", "out_of_sequence"},
    CounterFile{"hw_counters/packet_seq_err", "sequence_errors"},
    CounterFile{"hw_counters/rcvd_seq_err", "sequence_errors"},
    CounterFile{"hw_counters/seq_err_naks_rcvd", "sequence_errors"},
    CounterFile{"hw_counters/local_ack_timeout_err", "timeouts"},
    CounterFile{"hw_counters/to_retransmits", "timeouts"},
    CounterFile{"hw_counters/completer_retry_err", "timeouts"},
};

}  // namespace

std::optional<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

std::optional<IpAddress> parse_gid(std::string_view text) {
  constexpr std::size_t kGroups = 8;
  if (text.size() != kGroups * 5 - 1)
    return std::nullopt;
  IpAddress address{.family = Family::v6, .octets = {}};
  for (std::size_t group = 0; group < kGroups; ++group) {
    const char* const begin = text.data() + group * 5;
    std::uint16_t value = 0;
    const auto [end, error] = std::from_chars(begin, begin + 4, value, 16);
    if (error != std::errc() || end != begin + 4 || (group + 1 < kGroups && *end != ':'))
      return std::nullopt;
    address.octets[2 * group] = static_cast<std::uint8_t>(value >> 8U);
    address.octets[2 * group + 1] = static_cast<std::uint8_t>(value);
  }
  const auto& o = address.octets;
  const bool mapped =
      std::all_of(o.begin(), o.begin() + 10, [](auto octet) { return octet == 0; }) &&
      o[10] == 0xFF && o[11] == 0xFF;
  if (mapped)
    address = IpAddress::v4(o[12], o[13], o[14], o[15]);
  if (address.is_unspecified())
    return std::nullopt;
  return address;
}

std::vector<CounterValue> read_port_counters(const FileTree& tree, const std::string& device,
                                             std::uint32_t port) {
  std::vector<CounterValue> counters;
  for (const CounterFile& source : kFiles) {
    const bool known = std::ranges::any_of(
        counters, [&source](const CounterValue& counter) { return counter.name == source.name; });
    if (known)
      continue;  // a driver has one name for it
    const Result<std::string> text =
        tree.read(fmt::format("{}/ports/{}/{}", device, port, source.file));
    const std::optional<std::uint64_t> count = text ? parse_count(*text) : std::nullopt;
    if (!count || (source.stays && *count == kEndOf32Bits) || *count > kMost / source.unit)
      continue;
    counters.push_back(
        {.name = std::string(source.name), .value = *count * source.unit, .wraps = !source.stays});
  }
  std::ranges::sort(counters, {}, &CounterValue::name);
  return counters;
}

std::vector<RdmaAddress> read_addresses(const FileTree& tree, const RdmaDevice& device,
                                        std::uint32_t port) {
  std::vector<RdmaAddress> addresses;
  const std::string folder = fmt::format("{}/ports/{}", device.name, port);
  std::uint32_t empty = 0;
  for (std::uint32_t index = 0; index < kMostGids && empty < kEmptyGids; ++index) {
    const Result<std::string> gid = tree.read(fmt::format("{}/gids/{}", folder, index));
    const std::optional<IpAddress> address = gid ? parse_gid(*gid) : std::nullopt;
    empty = address ? 0 : empty + 1;
    if (!address)
      continue;
    const Result<std::string> type = tree.read(fmt::format("{}/gid_attrs/types/{}", folder, index));
    if (type && *type == "RoCE v2")
      addresses.push_back({device.index, port, index, *address});
  }
  return addresses;
}

bool is_software(const FileTree& tree, const std::string& device) {
  // Soft-RoCE names the interface that it stands on; no driver of hardware does.
  return tree.read(device + "/parent").has_value();
}

}  // namespace heddle
