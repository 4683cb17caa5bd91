// Reading a reply's JSON without ever failing on it: what is absent, or of another kind than
// expected, is unknown, and unknown is shown as "?", never as zero (safety rule 7). Any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

using Json = nlohmann::json;

inline constexpr std::string_view kUnknown = "?";

// A member, by a path of keys; null if any of it is absent.
const Json& member(const Json& value, std::string_view key);
const Json& member(const Json& value, std::string_view key, std::string_view inner);

// The elements of an array; none if it is no array.
std::vector<Json> elements(const Json& value, std::string_view key);

// Null and "unobservable" are unknown.
bool known(const Json& value);
std::optional<double> number(const Json& value);
std::optional<std::uint64_t> count(const Json& value);
bool truth(const Json& value);  // false if unknown

// Words, numbers and lists of them as text; harmless for a terminal.
std::string text(const Json& value);

// A number in its unit, "?" if unknown.
std::string measured(const Json& value, std::string (*human)(double));

}  // namespace heddle
