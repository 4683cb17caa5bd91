#include "agent/observe/qp_layout.h"

#include <bpf/btf.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace heddle {
namespace {

struct Place {
  std::uint32_t offset{};  // in octets
  std::int64_t size{};
};

// Without typedefs and qualifiers.
const btf_type* plain(const btf* types, std::uint32_t id) {
  const int resolved = btf__resolve_type(types, id);
  return resolved < 0 ? nullptr : btf__type_by_id(types, static_cast<std::uint32_t>(resolved));
}

// A member by name, also inside members that have none.
std::optional<std::pair<Place, std::uint32_t>> member(const btf* types, const btf_type* structure,
                                                      std::string_view name) {
  const btf_member* const members = btf_members(structure);
  for (std::uint16_t i = 0; i < btf_vlen(structure); ++i) {
    const std::uint32_t bits = btf_member_bit_offset(structure, i);
    const char* const called = btf__name_by_offset(types, members[i].name_off);
    if (called != nullptr && name == called) {
      if (bits % 8 != 0 || btf_member_bitfield_size(structure, i) != 0)
        return std::nullopt;
      return std::pair(Place{bits / 8, btf__resolve_size(types, members[i].type)}, members[i].type);
    }
    const btf_type* const inner = plain(types, members[i].type);
    if ((called == nullptr || *called == '\0') && inner != nullptr && btf_is_composite(inner)) {
      if (auto found = member(types, inner, name)) {
        found->first.offset += bits / 8;
        return found;
      }
    }
  }
  return std::nullopt;
}

// "ib_qp_attr", "ah_attr.grh.dgid".
Result<Place> find(const btf* types, const char* structure, std::string_view path) {
  const auto missing = [&] {
    return fail(Errc::unsupported,
                fmt::format("this kernel's struct {} has no {} that we know", structure, path));
  };
  const int id = btf__find_by_name_kind(types, structure, BTF_KIND_STRUCT);
  if (id < 0)
    return missing();
  const btf_type* type = btf__type_by_id(types, static_cast<std::uint32_t>(id));
  Place place;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find('.'));
    rest.remove_prefix(name.size() == rest.size() ? name.size() : name.size() + 1);
    if (type == nullptr || !btf_is_composite(type))
      return missing();
    const auto found = member(types, type, name);
    if (!found)
      return missing();
    place = {place.offset + found->first.offset, found->first.size};
    type = plain(types, found->second);
  }
  return place;
}

}  // namespace

Result<heddle_qp_layout> find_qp_layout(const btf* types) {
  heddle_qp_layout layout{};
  struct Wanted {
    const char* structure;
    const char* path;
    std::int64_t size;  // 0: 1 or 4
    std::uint32_t* offset;
  };
  const Wanted all[] = {
      {"ib_qp", "device", 8, &layout.qp_device},
      {"ib_qp", "qp_num", 4, &layout.qp_number},
      {"ib_device", "index", 4, &layout.device_index},
      {"ib_qp_attr", "qp_state", 4, &layout.attr_state},
      {"ib_qp_attr", "dest_qp_num", 4, &layout.attr_remote_qpn},
      {"ib_qp_attr", "ah_attr.grh.dgid", 16, &layout.attr_destination},
      {"ib_qp_attr", "ah_attr.grh.flow_label", 4, &layout.attr_flow_label},
      {"ib_qp_attr", "ah_attr.grh.sgid_index", 1, &layout.attr_gid_index},
      {"ib_qp_attr", "ah_attr.port_num", 0, &layout.attr_port},
  };
  for (const Wanted& wanted : all) {
    const Result<Place> place = find(types, wanted.structure, wanted.path);
    if (!place)
      return tl::unexpected(place.error());
    const bool fits =
        wanted.size == 0 ? place->size == 1 || place->size == 4 : place->size == wanted.size;
    if (!fits) {
      return fail(Errc::unsupported, fmt::format("this kernel's struct {} has a {} of {} octets",
                                                 wanted.structure, wanted.path, place->size));
    }
    *wanted.offset = place->offset;
    if (wanted.size == 0)
      layout.attr_port_octets = static_cast<std::uint32_t>(place->size);
  }
  return layout;
}

}  // namespace heddle
