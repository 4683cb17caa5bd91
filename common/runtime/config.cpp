#include "common/runtime/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <fstream>
#include <sstream>

namespace heddle {

struct ConfigReader::Section {
  struct Entry {
    std::string key;
    int line{};
    YAML::Node value;
    bool known{};
  };

  Document* document{};
  std::string prefix;  // "routing.", in front of keys in messages
  int line{};
  std::vector<Entry> entries;

  Entry* find(std::string_view key) {
    const auto it = std::ranges::find(entries, key, &Entry::key);
    return it == entries.end() ? nullptr : &*it;
  }
};

struct ConfigReader::Document {
  struct Problem {
    int line{};
    std::string text;
    auto operator<=>(const Problem&) const = default;
  };

  std::string name;
  std::deque<Section> sections;  // a deque: readers point into it
  std::vector<Problem> problems;

  void add(int line, std::string text) { problems.push_back({line, std::move(text)}); }

  Section& open(const YAML::Node& map, std::string prefix, int line) {
    Section& section = sections.emplace_back(Section{this, std::move(prefix), line, {}});
    for (const auto& pair : map) {
      const int key_line = pair.first.Mark().line + 1;
      if (!pair.first.IsScalar()) {
        add(key_line, section.prefix + "a key must be a word");
      } else if (const std::string& key = pair.first.Scalar(); section.find(key) != nullptr) {
        add(key_line, fmt::format("{}{}: given twice", section.prefix, key));
      } else {
        section.entries.push_back({key, key_line, pair.second, false});
      }
    }
    return section;
  }
};

namespace {

// Texts from a file are quoted in messages; a long one is cut, as it is only there to be
// recognised.
std::string quoted(const std::string& text) {
  constexpr std::size_t kShown = 60;
  return text.size() <= kShown ? fmt::format("\"{}\"", text)
                               : fmt::format("\"{}...\"", text.substr(0, kShown));
}

std::string shown(const YAML::Node& node) {
  if (node.IsScalar())
    return quoted(node.Scalar());
  if (node.IsSequence())
    return "a list";
  if (node.IsMap())
    return "a mapping";
  return "nothing";
}

// The whole text, in decimal: yaml-cpp would read 010 as eight.
template <class T>
std::optional<T> number(const YAML::Node& node) {
  if (!node.IsScalar())
    return std::nullopt;
  const std::string& text = node.Scalar();
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

std::string bounds(const auto& min, const auto& max) {
  return fmt::format("from {} to {}", min, max);
}

}  // namespace

ConfigReader::ConfigReader(std::shared_ptr<Section> section) : section_(std::move(section)) {}

Result<ConfigReader> ConfigReader::load(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    return fail(Errc::io, fmt::format("{}: is a folder", file.string()));
  }
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in.peek() != std::ifstream::traits_type::eof())
    text << in.rdbuf();
  if (!in.is_open() || in.bad() || text.bad()) {
    return fail(Errc::io,
                fmt::format("{}: {}", file.string(), std::generic_category().message(errno)));
  }
  return parse(text.view(), file.string());
}

Result<ConfigReader> ConfigReader::parse(std::string_view text, std::string name) {
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap() && !root.IsNull()) {
      return fail(Errc::parse, fmt::format("{}:{}: must be a mapping of keys to values", name,
                                           root.Mark().line + 1));
    }
    auto document = std::make_shared<Document>();
    document->name = std::move(name);
    Section& section = document->open(root, "", 1);
    return ConfigReader(std::shared_ptr<Section>(std::move(document), &section));
  } catch (const YAML::Exception& e) {
    return fail(Errc::parse, fmt::format("{}:{}: {}", name, e.mark.line + 1, e.msg));
  }
}

// Finds a key's entry and marks it as known; notes its absence if it is required.
static ConfigReader::Section::Entry* take(ConfigReader::Section& section, std::string_view key,
                                          Need need) {
  ConfigReader::Section::Entry* entry = section.find(key);
  if (entry != nullptr) {
    entry->known = true;
  } else if (need == Need::required) {
    section.document->add(section.line, fmt::format("{}{}: missing", section.prefix, key));
  }
  return entry;
}

static void wrong(ConfigReader::Section& section, const ConfigReader::Section::Entry& entry,
                  const YAML::Node& value, std::string_view wanted) {
  section.document->add(
      value.Mark().line >= 0 ? value.Mark().line + 1 : entry.line,
      fmt::format("{}{}: must be {}, not {}", section.prefix, entry.key, wanted, shown(value)));
}

template <class T>
static void read_number(ConfigReader::Section& section, std::string_view key, T& value,
                        ConfigRange<T> range, Need need, std::string_view kind) {
  const auto* entry = take(section, key, need);
  if (entry == nullptr)
    return;
  const std::optional<T> read = number<T>(entry->value);
  if (read && *read >= range.min && *read <= range.max) {
    value = *read;
    return;
  }
  const bool open = range.min == ConfigRange<T>{}.min && range.max == ConfigRange<T>{}.max &&
                    !std::is_integral_v<T>;
  wrong(section, *entry, entry->value,
        open ? std::string(kind) : fmt::format("{} {}", kind, bounds(range.min, range.max)));
}

void ConfigReader::read(std::string_view key, std::string& value, Need need) {
  const auto* entry = take(*section_, key, need);
  if (entry == nullptr)
    return;
  if (!entry->value.IsScalar() || entry->value.Scalar().empty()) {
    return wrong(*section_, *entry, entry->value, "a text");
  }
  value = entry->value.Scalar();
}

void ConfigReader::read(std::string_view key, std::filesystem::path& value, Need need) {
  std::string text;
  read(key, text, need);
  if (!text.empty())
    value = text;
}

void ConfigReader::read(std::string_view key, std::vector<std::string>& value, Need need) {
  const auto* entry = take(*section_, key, need);
  if (entry == nullptr)
    return;
  if (!entry->value.IsSequence())
    return wrong(*section_, *entry, entry->value, "a list of texts");
  std::vector<std::string> texts;
  for (const auto& item : entry->value) {
    if (!item.IsScalar() || item.Scalar().empty())
      return wrong(*section_, *entry, item, "a list of texts");
    texts.push_back(item.Scalar());
  }
  value = std::move(texts);
}

void ConfigReader::read(std::string_view key, std::vector<Prefix>& value) {
  std::vector<std::string> words;
  read(key, words);
  std::vector<Prefix> prefixes;
  for (const std::string& word : words)
    if (const auto prefix = Prefix::parse(word))
      prefixes.push_back(*prefix);
    else
      problem(key, fmt::format("'{}' is no prefix; they look like 10.9.0.0/16", word));
  if (has(key))
    value = std::move(prefixes);
}

void ConfigReader::read(std::string_view key, bool& value, Need need) {
  const auto* entry = take(*section_, key, need);
  if (entry == nullptr)
    return;
  const std::string text = entry->value.IsScalar() ? entry->value.Scalar() : std::string();
  if (text != "true" && text != "false")
    return wrong(*section_, *entry, entry->value, "true or false");
  value = text == "true";
}

void ConfigReader::read(std::string_view key, std::uint16_t& value,
                        ConfigRange<std::uint16_t> range, Need need) {
  read_number(*section_, key, value, range, need, "a whole number");
}
void ConfigReader::read(std::string_view key, std::uint32_t& value,
                        ConfigRange<std::uint32_t> range, Need need) {
  read_number(*section_, key, value, range, need, "a whole number");
}
void ConfigReader::read(std::string_view key, std::uint64_t& value,
                        ConfigRange<std::uint64_t> range, Need need) {
  read_number(*section_, key, value, range, need, "a whole number");
}
// Not a number compares false with every bound, infinity is outside of them, so neither gets in.
void ConfigReader::read(std::string_view key, double& value, ConfigRange<double> range, Need need) {
  read_number(*section_, key, value, range, need, "a number");
}

void ConfigReader::read_duration(std::string_view key, Duration& value, Duration unit,
                                 ConfigRange<Duration> range, Need need) {
  const std::uint64_t absent = static_cast<std::uint64_t>(range.max / unit) + 1;
  std::uint64_t count = absent;
  read_number<std::uint64_t>(
      *section_, key, count,
      {static_cast<std::uint64_t>(range.min / unit), static_cast<std::uint64_t>(range.max / unit)},
      need, "a whole number");
  if (count != absent)
    value = unit * static_cast<Duration::rep>(count);
}

std::optional<std::size_t> ConfigReader::choose(std::string_view key,
                                                const std::vector<std::string_view>& words,
                                                Need need) {
  const auto* entry = take(*section_, key, need);
  if (entry == nullptr)
    return std::nullopt;
  const auto it = std::ranges::find(
      words, entry->value.IsScalar() ? std::string_view(entry->value.Scalar()) : "");
  if (it == words.end()) {
    wrong(*section_, *entry, entry->value, fmt::format("one of {}", fmt::join(words, ", ")));
    return std::nullopt;
  }
  return static_cast<std::size_t>(it - words.begin());
}

ConfigReader ConfigReader::section(std::string_view key, Need need) {
  Document& document = *section_->document;
  YAML::Node map;
  int line = section_->line;
  if (const auto* entry = take(*section_, key, need); entry != nullptr) {
    line = entry->line;
    if (entry->value.IsMap()) {
      map = entry->value;
    } else if (!entry->value.IsNull()) {
      wrong(*section_, *entry, entry->value, "a mapping");
    }
  }
  Section& opened = document.open(map, fmt::format("{}{}.", section_->prefix, key), line);
  return ConfigReader(std::shared_ptr<Section>(section_, &opened));
}

std::vector<ConfigReader> ConfigReader::list(std::string_view key, Need need) {
  std::vector<ConfigReader> readers;
  const auto* entry = take(*section_, key, need);
  if (entry == nullptr)
    return readers;
  if (!entry->value.IsSequence()) {
    wrong(*section_, *entry, entry->value, "a list of mappings");
    return readers;
  }
  for (const auto& item : entry->value) {
    if (!item.IsMap()) {
      wrong(*section_, *entry, item, "a list of mappings");
      continue;
    }
    Section& opened = section_->document->open(
        item, fmt::format("{}{}[{}].", section_->prefix, key, readers.size()),
        item.Mark().line + 1);
    readers.push_back(ConfigReader(std::shared_ptr<Section>(section_, &opened)));
  }
  return readers;
}

bool ConfigReader::has(std::string_view key) const {
  return section_->find(key) != nullptr;
}

void ConfigReader::problem(std::string_view key, std::string_view message) {
  const auto* entry = section_->find(key);
  section_->document->add(entry != nullptr ? entry->line : section_->line,
                          fmt::format("{}{}: {}", section_->prefix, key, message));
}

std::string ConfigReader::where(std::string_view key) const {
  const auto* entry = section_->find(key);
  return fmt::format("{}:{}", section_->document->name,
                     entry != nullptr ? entry->line : section_->line);
}

Result<void> ConfigReader::finish() const {
  const Document& document = *section_->document;
  std::vector<Document::Problem> problems = document.problems;
  for (const Section& section : document.sections) {
    for (const Section::Entry& entry : section.entries) {
      if (!entry.known)
        problems.push_back(
            {entry.line, fmt::format("{}{}: no such key", section.prefix, entry.key)});
    }
  }
  if (problems.empty())
    return {};
  std::ranges::sort(problems);
  std::string text;
  for (const Document::Problem& problem : problems) {
    fmt::format_to(std::back_inserter(text), "{}{}:{}: {}", text.empty() ? "" : "\n", document.name,
                   problem.line, problem.text);
  }
  return fail(Errc::invalid_argument, std::move(text));
}

}  // namespace heddle
