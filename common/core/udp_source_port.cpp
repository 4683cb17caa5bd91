#include "common/core/udp_source_port.h"

namespace heddle {
namespace {

constexpr std::uint32_t kLabelMask = 0xFFFFF;
constexpr std::uint32_t kLowMask = 0x3FFF;
constexpr std::uint16_t kFirstPort = 0xC000;

}  // namespace

std::uint32_t flow_label(std::uint32_t qpn, std::uint32_t remote_qpn) {
  std::uint64_t mixed = std::uint64_t{qpn} * remote_qpn;
  mixed ^= mixed >> 20U;
  mixed ^= mixed >> 40U;
  return static_cast<std::uint32_t>(mixed) & kLabelMask;
}

std::uint32_t cm_flow_label(std::uint16_t caller_port, std::uint16_t service_port) {
  return (caller_port * std::uint32_t{31} + service_port) & kLabelMask;
}

std::uint16_t udp_source_port(std::uint32_t label) {
  const std::uint32_t folded = (label & kLowMask) ^ ((label & kLabelMask & ~kLowMask) >> 14U);
  return static_cast<std::uint16_t>(folded | kFirstPort);
}

}  // namespace heddle
