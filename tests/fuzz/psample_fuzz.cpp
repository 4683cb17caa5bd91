// Whatever arrives as a sample, and whatever packet is in it, is understood or passed over, and
// what is estimated from it is a number that makes sense (safety rule 10).
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "agent/observe/generic_family.h"
#include "agent/observe/psample_message.h"
#include "agent/observe/roce_packet.h"
#include "agent/observe/sampled_flows.h"
#include "common/core/check.h"

namespace heddle {
namespace {

constexpr Time kNow{std::chrono::seconds(1)};

// Every port is watched, so that as much as possible is dealt with.
SampledFlows watching() {
  SampledFlows flows;
  std::map<std::uint16_t, std::string> out;
  std::set<std::uint16_t> in;
  for (std::uint16_t port = 1; port < 64; ++port) {
    out[port] = "up1";
    in.insert(port);
  }
  flows.watch(std::move(out), std::move(in));
  return flows;
}

void fuzz(std::span<const std::byte> bytes) {
  (void)parse_generic_family(bytes);
  if (const auto packet = parse_roce(bytes)) {
    HEDDLE_CHECK(packet->dest_qpn < 1U << 24U);
    HEDDLE_CHECK(packet->source.family == packet->destination.family);
  }
  SampledFlows flows = watching();
  while (bytes.size() >= sizeof(std::uint32_t)) {
    if (const auto sample = parse_sample(bytes)) {
      HEDDLE_CHECK(sample->rate >= 1);
      flows.add(*sample, kNow);
    }
    // As netlink messages follow each other in a datagram.
    std::uint32_t length{};
    std::memcpy(&length, bytes.data(), sizeof(length));
    const std::size_t step = std::size_t{length} + 3U & ~std::size_t{3};
    if (step == 0 || step > bytes.size())
      break;
    bytes = bytes.subspan(step);
  }
  for (const FlowCounter& flow : flows.read(kNow).flows)
    HEDDLE_CHECK(flow.packets > 0 && flow.dest_qpn < 1U << 24U);
}

}  // namespace
}  // namespace heddle

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  heddle::fuzz({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
