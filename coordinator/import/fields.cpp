#include "coordinator/import/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "coordinator/import/fabric_file.h"

namespace heddle {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr std::size_t kLongestPort = 15;  // the kernel's limit for an interface's name

// What somebody wrote, fit for a message: short, and without bytes that would disturb a terminal.
std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out + (text.size() > kShown ? "...'" : "'");
}

std::string port_fault(std::string_view text) {
  const bool clean = std::none_of(
      text.begin(), text.end(), [](unsigned char c) { return c <= 0x20 || c == 0x7f || c == '/'; });
  if (!text.empty() && text.size() <= kLongestPort && clean)
    return {};
  return fmt::format("{} is no interface name (1 to {} characters, no '/' or blank)", quoted(text),
                     kLongestPort);
}

}  // namespace

std::string name_fault(std::string_view text) {
  const bool clean = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (std::isalnum(c) != 0 && c < 0x80) || c == '.' || c == '_' || c == '-';
  });
  if (!text.empty() && text.size() <= kLongestName && clean)
    return {};
  return fmt::format("{} is no name (1 to {} letters, digits, '.', '_' or '-')", quoted(text),
                     kLongestName);
}

Fields::Fields(const YamlNode& node, std::string_view what, std::vector<std::string_view> known,
               std::vector<Mistake>& mistakes)
    : node_(node), what_(what), mistakes_(mistakes) {
  if (!is_map()) {
    note(node.line,
         fmt::format("{} is written as keys and values ({})", what, fmt::join(known, ", ")));
    return;
  }
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
    const YamlNode& key = node.items[i];
    if (key.kind != YamlNode::Kind::scalar)
      note(key.line, fmt::format("a key of {} is not a word", what));
    else if (std::find(known.begin(), known.end(), key.text) == known.end())
      note(key.line, fmt::format("unknown key {} in {} (known: {})", quoted(key.text), what,
                                 fmt::join(known, ", ")));
    else if (!seen.insert(key.text).second)
      note(key.line, fmt::format("key '{}' is given twice in {}", key.text, what));
  }
}

std::optional<std::string> Fields::text(std::string_view key) const {
  const YamlNode* value = require(key);
  if (value == nullptr)
    return {};
  if (value->kind != YamlNode::Kind::scalar) {
    note(value->line, fmt::format("'{}' of {} must be a single value", key, what_));
    return {};
  }
  return value->text;
}

std::optional<std::string> Fields::name(std::string_view key) const {
  std::optional<std::string> value = text(key);
  if (!value)
    return {};
  if (const std::string fault = name_fault(*value); !fault.empty()) {
    note(find(key)->line, fmt::format("'{}' of {}: {}", key, what_, fault));
    return {};
  }
  return value;
}

std::optional<std::string> Fields::optional_name(std::string_view key) const {
  const YamlNode* value = find(key);
  if (value == nullptr)
    return std::string{};
  return name(key);
}

std::optional<std::string> Fields::port(std::string_view key) const {
  std::optional<std::string> value = text(key);
  if (!value)
    return {};
  if (const std::string fault = port_fault(*value); !fault.empty()) {
    note(find(key)->line, fmt::format("'{}' of {}: {}", key, what_, fault));
    return {};
  }
  return value;
}

std::optional<std::string> Fields::optional_port(std::string_view key) const {
  const YamlNode* value = find(key);
  if (value == nullptr)
    return std::string{};
  return port(key);
}

std::optional<Rate> Fields::capacity(std::string_view key) const {
  const std::optional<std::string> value = text(key);
  if (!value)
    return {};
  const Result<Rate> rate = parse_capacity(*value);
  if (!rate) {
    note(find(key)->line, fmt::format("'{}' of {}: {}", key, what_, rate.error().message));
    return {};
  }
  return *rate;
}

bool Fields::list(std::string_view key, const std::function<void(const YamlNode&)>& each) const {
  const YamlNode* value = require(key);
  if (value == nullptr)
    return false;
  if (value->kind != YamlNode::Kind::sequence) {
    note(value->line, fmt::format("'{}' of {} must be a list", key, what_));
    return false;
  }
  for (const YamlNode& item : value->items)
    each(item);
  return true;
}

const YamlNode* Fields::find(std::string_view key) const {
  if (!is_map())
    return nullptr;
  for (std::size_t i = 0; i + 1 < node_.items.size(); i += 2)
    if (node_.items[i].kind == YamlNode::Kind::scalar && node_.items[i].text == key)
      return &node_.items[i + 1];
  return nullptr;
}

const YamlNode* Fields::require(std::string_view key) const {
  const YamlNode* value = find(key);
  if (value == nullptr && is_map())
    note(line(), fmt::format("{} lacks '{}'", what_, key));
  return value;
}

void Fields::note(int line, std::string message) const {
  mistakes_.push_back({line, std::move(message)});
}

}  // namespace heddle
