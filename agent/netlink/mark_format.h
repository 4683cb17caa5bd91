// What writing and reading the table of marks have in common: names, forms of keys, signatures. For
// marks.cpp and mark_reading.cpp only.
#pragma once

#include <linux/if.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "agent/netlink/marks.h"

namespace heddle {

inline constexpr const char* kPorts = "ports";
inline constexpr const char* kFlows = "flows";
inline constexpr const char* kFlowsV6 = "flows6";
inline constexpr const char* kChain = "marking";
// A comment as nft shows it: type 0, length, text. The number goes up when the rules change, so
// that a table of an earlier version is known as such and made again.
inline constexpr std::string_view kSignature{"\0\x14heddle flow marks 2\0", 22};
inline constexpr std::string_view kFormerSignature{"\0\x14heddle flow marks 1\0", 22};
static_assert(kSignature.back() == '\0' && kFormerSignature.back() == '\0');

inline constexpr std::uint32_t kPriority = static_cast<std::uint32_t>(-150);  // "mangle"
inline constexpr std::uint32_t kAccept = 1;
inline constexpr std::uint8_t kFamilies[] = {NFPROTO_IPV4, NFPROTO_IPV6};

// Source, destination, port; each part begins at a multiple of four.
using FlowKeyBytes = std::array<std::byte, 12>;
using FlowKeyBytesV6 = std::array<std::byte, 36>;
using PortKeyBytes = std::array<char, IFNAMSIZ>;

inline bool is_v6(const ByQueuePair& flow) {
  return flow.source.family == Family::v6;
}

constexpr std::uint16_t type_of(int message) {
  return static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8U | static_cast<unsigned>(message));
}

inline std::uint8_t family_of(MarkFormat format) {
  return format == MarkFormat::present ? NFPROTO_INET : NFPROTO_IPV4;
}

}  // namespace heddle
