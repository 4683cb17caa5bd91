#include "agent/observe/psample_message.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/psample.h>

#include <cstring>
#include <limits>

#include "agent/observe/attributes.h"

namespace heddle {
namespace {

// A flag of kernels from 6.11 on, which the build machine's header may not have: the rate is a
// chance of 2^32 instead.
constexpr int kProbability = 16;
constexpr double kCertain = std::numeric_limits<std::uint32_t>::max();

}  // namespace

std::optional<Sample> parse_sample(std::span<const std::byte> message) {
  nlmsghdr header{};
  genlmsghdr generic{};
  if (message.size() < NLMSG_HDRLEN + GENL_HDRLEN)
    return std::nullopt;
  std::memcpy(&header, message.data(), sizeof(header));
  if (header.nlmsg_len < NLMSG_HDRLEN + GENL_HDRLEN || header.nlmsg_len > message.size())
    return std::nullopt;
  std::memcpy(&generic, message.data() + NLMSG_HDRLEN, sizeof(generic));
  if (generic.cmd != PSAMPLE_CMD_SAMPLE)
    return std::nullopt;

  Sample sample;
  std::optional<std::uint32_t> size, rate, group, sequence;
  bool probability = false;
  for_each_attribute(
      message.subspan(NLMSG_HDRLEN + GENL_HDRLEN, header.nlmsg_len - (NLMSG_HDRLEN + GENL_HDRLEN)),
      [&](int type, std::span<const std::byte> value) {
        switch (type) {
          case PSAMPLE_ATTR_IIFINDEX:
            sample.in_port = attribute_number<std::uint16_t>(value).value_or(0);
            break;
          case PSAMPLE_ATTR_OIFINDEX:
            sample.out_port = attribute_number<std::uint16_t>(value).value_or(0);
            break;
          case PSAMPLE_ATTR_ORIGSIZE:
            size = attribute_number<std::uint32_t>(value);
            break;
          case PSAMPLE_ATTR_SAMPLE_GROUP:
            group = attribute_number<std::uint32_t>(value);
            break;
          case PSAMPLE_ATTR_GROUP_SEQ:
            sequence = attribute_number<std::uint32_t>(value);
            break;
          case PSAMPLE_ATTR_SAMPLE_RATE:
            rate = attribute_number<std::uint32_t>(value);
            break;
          case PSAMPLE_ATTR_DATA:
            sample.data = value;
            break;
          case kProbability:
            probability = true;
            break;
          default:
            break;
        }
      });
  if (!size || !rate || *rate == 0 || !group || !sequence)
    return std::nullopt;
  sample.size = {*size};
  sample.rate = probability ? kCertain / *rate : *rate;
  sample.group = *group;
  sample.sequence = *sequence;
  return sample;
}

}  // namespace heddle
