#include "agent/observe/lldp.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace heddle {
namespace {

// In the order of the text, and with nothing merged: lldpcli repeats a port's key for each
// neighbour.
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostNeighbours = 4'096;
constexpr std::size_t kLongestText = 255;
constexpr std::size_t kLongestPort = 15;

const Json& nothing() {
  static const Json none;
  return none;
}

const Json& member(const Json& of, const char* key) {
  if (!of.is_object())
    return nothing();
  const auto found = of.find(key);
  return found == of.end() ? nothing() : *found;
}

// json0 puts everything into a list, also what there is one of.
const Json& one(const Json& value) {
  return value.is_array() && !value.empty() ? value.front() : value;
}

// Each element of a list, or the only one.
template <class Visit>
void for_each(const Json& value, Visit visit) {
  if (value.is_array())
    for (const Json& element : value)
      visit(element);
  else if (!value.is_null())
    visit(value);
}

// "text", {"value": "text"} or [{"value": "text"}].
std::string text(const Json& value) {
  const Json& inner = one(value);
  const Json& content = inner.is_object() ? member(inner, "value") : inner;
  if (!content.is_string())
    return {};
  std::string result = content.get<std::string>();
  std::erase_if(result, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
  if (result.size() > kLongestText) {
    std::size_t end = kLongestText;
    while (end > 0 && (static_cast<unsigned char>(result[end]) & 0xc0U) == 0x80)
      --end;  // a character is not cut in two
    result.resize(end);
  }
  return result;
}

bool is_port(const std::string& name) {
  return !name.empty() && name.size() <= kLongestPort && std::ranges::all_of(name, [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != 0x7f && c != '/';
  });
}

// A chassis is {NAME: {..}}, or without a name {"id": {"type", "value"}, ..}; in json0 [{"name",
// "id"}].
std::string system_name(const Json& chassis) {
  const Json& inner = one(chassis);
  if (!inner.is_object() || inner.empty())
    return {};
  if (chassis.is_array() || member(member(inner, "id"), "type").is_string())
    return text(member(inner, "name"));
  return text(Json(inner.begin().key()));
}

void read_neighbour(const std::string& port, const Json& content,
                    std::vector<LldpNeighbour>& neighbours) {
  if (!is_port(port) || !content.is_object() || neighbours.size() == kMostNeighbours)
    return;
  const Json& other = one(member(content, "port"));
  neighbours.push_back({.port = port,
                        .node = system_name(member(content, "chassis")),
                        .node_port = text(member(other, "id")),
                        .node_port_description = text(member(other, "descr"))});
}

}  // namespace

Result<std::vector<LldpNeighbour>> parse_lldp(std::string_view json) {
  const Json root = Json::parse(json, nullptr, false);
  if (root.is_discarded())
    return fail(Errc::parse, "what lldpcli printed is no JSON");
  const Json& lldp = one(member(root, "lldp"));
  if (!lldp.is_object())
    return fail(Errc::parse, "what lldpcli printed has no \"lldp\"");
  std::vector<LldpNeighbour> neighbours;
  for_each(member(lldp, "interface"), [&neighbours](const Json& entry) {
    if (!entry.is_object())
      return;
    if (const Json& name = member(entry, "name"); name.is_string()) {
      read_neighbour(name.get<std::string>(), entry, neighbours);
      return;
    }
    for (const auto& item : entry.items())
      for_each(item.value(),
               [&](const Json& neighbour) { read_neighbour(item.key(), neighbour, neighbours); });
  });
  std::ranges::sort(neighbours);
  neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
  return neighbours;
}

}  // namespace heddle
