#include "coordinator/cli/json_view.h"

#include <fmt/format.h>

#include "coordinator/cli/table.h"

namespace heddle {

const Json& member(const Json& value, std::string_view key) {
  static const Json kNull;
  if (!value.is_object())
    return kNull;
  const auto it = value.find(key);
  return it == value.end() ? kNull : *it;
}

const Json& member(const Json& value, std::string_view key, std::string_view inner) {
  return member(member(value, key), inner);
}

std::vector<Json> elements(const Json& value, std::string_view key) {
  const Json& list = member(value, key);
  if (!list.is_array())
    return {};
  return {list.begin(), list.end()};
}

bool known(const Json& value) {
  return !value.is_null() && value != "unobservable";
}

std::optional<double> number(const Json& value) {
  if (!value.is_number())
    return {};
  return value.get<double>();
}

std::optional<std::uint64_t> count(const Json& value) {
  if (!value.is_number_unsigned())
    return {};
  return value.get<std::uint64_t>();
}

bool truth(const Json& value) {
  return value.is_boolean() && value.get<bool>();
}

std::string text(const Json& value) {
  if (!known(value))
    return std::string(kUnknown);
  if (value.is_string())
    return harmless(value.get_ref<const std::string&>());
  if (value.is_boolean())
    return value.get<bool>() ? "yes" : "no";
  if (value.is_array()) {
    std::string out;
    for (const Json& item : value)
      out += (out.empty() ? "" : ", ") + text(item);
    return out;
  }
  return harmless(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

std::string measured(const Json& value, std::string (*human)(double)) {
  const std::optional<double> known_number = number(value);
  return known_number ? human(*known_number) : std::string(kUnknown);
}

}  // namespace heddle
