#include "coordinator/import/waves_file.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <set>

#include "coordinator/import/fields.h"

namespace heddle {

namespace {

constexpr std::uint32_t kLongestSoak = 30U * 24 * 3600;

const YamlNode* find(const YamlNode& map, std::string_view key) {
  for (std::size_t i = 0; i + 1 < map.items.size(); i += 2)
    if (map.kind == YamlNode::Kind::map && map.items[i].text == key)
      return &map.items[i + 1];
  return nullptr;
}

// Nothing if the key is absent, or wrong, which is noted.
std::optional<std::uint32_t> soak_of(const YamlNode& map, Mistakes& mistakes) {
  const YamlNode* value = find(map, "soak_s");
  if (value == nullptr)
    return std::nullopt;
  std::uint32_t seconds = 0;
  const char* end = value->text.data() + value->text.size();
  const auto [rest, error] = std::from_chars(value->text.data(), end, seconds);
  if (value->kind != YamlNode::Kind::scalar || error != std::errc() || rest != end ||
      seconds > kLongestSoak) {
    mistakes.push_back({value->line, "'soak_s' is a whole number of seconds, up to 30 days"});
    return std::nullopt;
  }
  return seconds;
}

}  // namespace

tl::expected<std::vector<WaveLine>, Mistakes> parse_waves(std::string_view text) {
  const auto document = parse_yaml(text);
  if (!document)
    return tl::unexpected(Mistakes{document.error()});
  Mistakes mistakes;
  std::vector<WaveLine> waves;
  std::set<std::string> seen;
  const Fields file(*document, "a file of waves", {"soak_s", "waves"}, mistakes);
  const std::optional<std::uint32_t> usual = soak_of(*document, mistakes);
  file.list("waves", [&](const YamlNode& node) {
    const Fields fields(node, "a wave", {"racks", "soak_s"}, mistakes);
    WaveLine wave;
    fields.list("racks", [&](const YamlNode& rack) {
      const std::string fault =
          rack.kind == YamlNode::Kind::scalar ? name_fault(rack.text) : "it is no name";
      if (!fault.empty())
        mistakes.push_back({rack.line, fmt::format("a rack of a wave: {}", fault)});
      else if (!seen.insert(rack.text).second)
        mistakes.push_back({rack.line, fmt::format("rack '{}' is in two waves", rack.text)});
      wave.racks.push_back(rack.text);
    });
    const std::optional<std::uint32_t> own = soak_of(node, mistakes);
    if (!own && !usual && find(node, "soak_s") == nullptr)
      mistakes.push_back({fields.line(), "a wave lacks 'soak_s', and there is none for all"});
    wave.soak_seconds = own ? *own : usual.value_or(0);
    if (wave.racks.empty())
      mistakes.push_back({fields.line(), "a wave has at least one rack"});
    waves.push_back(std::move(wave));
  });
  if (waves.empty() && mistakes.empty())
    mistakes.push_back({document->line, "there is no wave"});
  if (!mistakes.empty())
    return tl::unexpected(std::move(mistakes));
  return waves;
}

}  // namespace heddle
