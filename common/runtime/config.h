// Reads YAML configuration strictly: each mistake, and each key that nobody asked for, is an error
// that names file, line and key, and all of them are reported together. Used at start, on one
// thread; values are copied out.
//
//   auto reader = ConfigReader::load(file);               // Errc::io, Errc::parse
//   reader->read("node", config.node, Need::required);
//   reader->read("lease_s", config.lease_s, {.min = 1, .max = 86400});
//   ConfigReader routing = reader->section("routing");
//   routing.read("protocol", config.protocol, {.min = 1, .max = 255});
//   if (auto ok = reader->finish(); !ok) return ok;       // covers the sections, too
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/core/address.h"
#include "common/core/result.h"
#include "common/core/units.h"

namespace heddle {

enum class Need : std::uint8_t { optional, required };

// What a number may be, both ends included.
template <class T>
struct ConfigRange {
  T min{std::numeric_limits<T>::lowest()};
  T max{std::numeric_limits<T>::max()};
};

class ConfigReader {
 public:
  // Errc::io if it cannot be read, Errc::parse if it is not YAML or not a mapping. An empty file is
  // an empty mapping.
  static Result<ConfigReader> load(const std::filesystem::path& file);
  // `name` stands for the file in messages.
  static Result<ConfigReader> parse(std::string_view text, std::string name);

  // Each reads one key. An absent key leaves the value as it is, the default; a wrong one is noted
  // for finish().
  void read(std::string_view key, std::string& value, Need need = Need::optional);
  void read(std::string_view key, std::filesystem::path& value, Need need = Need::optional);
  void read(std::string_view key, std::vector<std::string>& value, Need need = Need::optional);
  void read(std::string_view key, std::vector<Prefix>& value);
  void read(std::string_view key, bool& value, Need need = Need::optional);
  void read(std::string_view key, std::uint16_t& value, ConfigRange<std::uint16_t> range = {},
            Need need = Need::optional);
  void read(std::string_view key, std::uint32_t& value, ConfigRange<std::uint32_t> range = {},
            Need need = Need::optional);
  void read(std::string_view key, std::uint64_t& value, ConfigRange<std::uint64_t> range = {},
            Need need = Need::optional);
  void read(std::string_view key, double& value, ConfigRange<double> range = {},
            Need need = Need::optional);
  // The key is a whole number of `unit`: read_duration("lease_s", lease, 1s, {1s, 24h}).
  void read_duration(std::string_view key, Duration& value, Duration unit,
                     ConfigRange<Duration> range, Need need = Need::optional);

  // One of a few words, each standing for a value.
  template <class E>
  void read_choice(std::string_view key, E& value,
                   std::initializer_list<std::pair<std::string_view, E>> choices,
                   Need need = Need::optional) {
    std::vector<std::string_view> words;
    for (const auto& choice : choices)
      words.push_back(choice.first);
    if (const auto chosen = choose(key, words, need))
      value = (choices.begin() + *chosen)->second;
  }

  // A mapping inside this one; an empty reader if it is absent. It shares this reader's errors.
  ConfigReader section(std::string_view key, Need need = Need::optional);
  // The mappings of a list.
  std::vector<ConfigReader> list(std::string_view key, Need need = Need::optional);

  // Whether the key is there.
  bool has(std::string_view key) const;
  // Notes a mistake that the caller found in a key's value.
  void problem(std::string_view key, std::string_view message);
  // "agent.yaml:12", for values that are checked later.
  std::string where(std::string_view key) const;

  // Errc::invalid_argument with every mistake on a line of its own, unknown keys included.
  Result<void> finish() const;

  struct Document;  // the parsed file, shared by its readers
  struct Section;

 private:
  explicit ConfigReader(std::shared_ptr<Section> section);
  std::optional<std::size_t> choose(std::string_view key,
                                    const std::vector<std::string_view>& words, Need need);

  std::shared_ptr<Section> section_;
};

}  // namespace heddle
