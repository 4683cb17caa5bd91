// A routing: one path for every subflow.
#pragma once

#include <string>
#include <vector>

#include "common/core/ids.h"
#include "common/core/topology.h"

namespace heddle {

// Attachment, uplink cable (which names the spine), downlink cable, attachment. A path inside one
// leaf has neither uplink nor downlink. A path whose downlink is not set but whose uplink is leaves
// the choice among parallel cables to the spine's hash. An unroutable subflow (no live path) has no
// attachments. `spread`: the source leaf, too, hashes: over `up` and the cables parallel to it, as
// something behind it chose only the spine.
struct Path {
  AttachmentId from;
  CableId up;
  CableId down;
  AttachmentId to;
  bool spread{};

  bool routable() const { return from.valid(); }
  bool crosses_core() const { return up.valid(); }
  bool operator==(const Path&) const = default;
};

using Routing = std::vector<Path>;  // by subflow number (flow.h)

// "spine7", "spine7#2" where parallel cables make it necessary, "local" inside a leaf,
// "unroutable".
std::string to_string(const Topology& topology, const Path& path);

}  // namespace heddle
