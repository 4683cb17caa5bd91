// The samples of packets that a recording holds: see agent/record_command.h.
#pragma once

#include <linux/netlink.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "tests/tree.h"

namespace heddle::test {

inline std::filesystem::path recording(const std::string& name) {
  return std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests/agent/recordings" / name;
}

// Its netlink messages in their order; none where something else is among them.
inline std::vector<std::vector<std::byte>> recorded_samples(const std::filesystem::path& folder) {
  std::ifstream in(folder / "psample", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::span<const std::byte> rest = std::as_bytes(std::span(text));
  std::vector<std::vector<std::byte>> messages;
  while (!rest.empty()) {
    nlmsghdr header{};
    if (rest.size() < sizeof(header))
      return {};
    std::memcpy(&header, rest.data(), sizeof(header));
    if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > rest.size())
      return {};
    const auto message = rest.first(header.nlmsg_len);
    messages.emplace_back(message.begin(), message.end());
    rest = rest.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), rest.size()));
  }
  return messages;
}

}  // namespace heddle::test
