// Ids are positions in the topology's arrays, each kind a type of its own, so that a leaf cannot be
// used as a spine. Names live in the topology; ids never cross the wire.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

namespace heddle {

template <class Tag>
struct Index {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  std::uint32_t value{kNone};

  constexpr bool valid() const { return value != kNone; }
  auto operator<=>(const Index&) const = default;
};

using LeafId = Index<struct LeafTag>;
using SpineId = Index<struct SpineTag>;
using HostId = Index<struct HostTag>;
using NicId = Index<struct NicTag>;
using AttachmentId = Index<struct AttachmentTag>;  // a NIC's port on a leaf
using CableId = Index<struct CableTag>;            // leaf to spine, two links
using LinkId = Index<struct LinkTag>;              // one direction
using JobId = Index<struct JobTag>;

}  // namespace heddle

template <class Tag>
struct std::hash<heddle::Index<Tag>> {
  std::size_t operator()(heddle::Index<Tag> id) const noexcept { return id.value; }
};
