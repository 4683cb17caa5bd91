// A YAML document as a bounded tree in which every node knows its line. yaml-cpp's own nodes are
// not used, because they follow aliases (a few bytes can stand for gigabytes) and forget where a
// key was written. Exceptions of yaml-cpp stop here. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "common/core/topology.h"

namespace heddle {

struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, sequence, map };

  Kind kind{Kind::null};
  int line{};                   // 1-based
  std::string text;             // of a scalar
  std::vector<YamlNode> items;  // of a sequence; of a map: key, value, key, value ...
};

struct YamlLimits {
  std::size_t bytes{std::size_t{16} << 20};  // of text
  std::size_t nodes{2'000'000};              // about 100,000 NICs
  std::size_t depth{16};                     // the fabric format needs 7
};

// One document. What is not YAML, an alias, a second document or a limit passed is the one mistake
// returned: after any of these nothing that follows can be trusted.
tl::expected<YamlNode, Mistake> parse_yaml(std::string_view text, YamlLimits limits = {});

}  // namespace heddle
