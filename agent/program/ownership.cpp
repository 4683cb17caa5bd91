#include "agent/program/ownership.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "agent/program/files.h"

namespace heddle {
namespace {

// One object a line, so that a person can read what is claimed:
//   heddle-ownership 2 BOOT-ID protocol N tables BASE COUNT rules PRIORITY nexthops BASE COUNT
//   nexthop ID
//   rule PORT TABLE          (rule6, markrule6: of IPv6)
//   route TABLE DESTINATION
//   markrule TABLE
//   marktable
//   markport PORT
//   mark SOURCE DESTINATION SOURCE-PORT
//   end
// The last line tells a whole record from one that was cut off. The first format, 1, ends its title
// with the boot id.
constexpr std::string_view kName = "heddle-ownership";

std::string_view take_word(std::string_view& line) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, space);
  line.remove_prefix(std::min(space + 1, line.size()));
  return word;
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size())
    return std::nullopt;
  return value;
}

// What follows the boot id.
std::optional<RoutingRanges> take_ranges(std::string_view line) {
  RoutingRanges ranges;
  std::uint32_t protocol{};
  const auto words = [&](std::string_view name, std::initializer_list<std::uint32_t*> values) {
    bool good = take_word(line) == name;
    for (std::uint32_t* const value : values) {
      const auto read = number(take_word(line));
      good = good && read;
      *value = read.value_or(0);
    }
    return good;
  };
  const bool good = words("protocol", {&protocol}) && protocol <= 255 &&
                    words("tables", {&ranges.table_base, &ranges.table_count}) &&
                    words("rules", {&ranges.rule_priority}) &&
                    words("nexthops", {&ranges.nexthop_base, &ranges.nexthop_count}) &&
                    line.empty();
  ranges.protocol = static_cast<std::uint8_t>(protocol);
  return good ? std::optional(ranges) : std::nullopt;
}

struct Title {
  std::string_view boot_id;
  std::optional<RoutingRanges> ranges;
};

std::optional<Title> take_title(std::string_view line) {
  const bool named = take_word(line) == kName;
  const std::string_view format = take_word(line);
  Title title{.boot_id = take_word(line), .ranges = {}};
  if (format == "2")
    title.ranges = take_ranges(line);
  const bool good = named && (format == "1" ? line.empty() : title.ranges.has_value());
  return good ? std::optional(title) : std::nullopt;
}

std::string title_of(const std::string& boot_id, const std::optional<RoutingRanges>& ranges) {
  if (!ranges)
    return fmt::format("{} 1 {}\n", kName, boot_id);
  return fmt::format("{} 2 {} protocol {} tables {} {} rules {} nexthops {} {}\n", kName, boot_id,
                     ranges->protocol, ranges->table_base, ranges->table_count,
                     ranges->rule_priority, ranges->nexthop_base, ranges->nexthop_count);
}

Family rule_family(std::string_view kind) {
  return kind.ends_with('6') ? Family::v6 : Family::v4;
}

bool take_mark_line(std::string_view kind, std::string_view line, Ownership& into) {
  if (kind == "markrule" || kind == "markrule6") {
    const auto table = number(line);
    if (table)
      into.rules.push_back({.in_port = {}, .table = *table, .family = rule_family(kind)});
    return table.has_value();
  }
  if (kind == "marktable") {
    into.mark_table = true;
    return line.empty();
  }
  if (kind == "markport") {
    into.mark_ports.emplace_back(line);
    return !line.empty();
  }
  if (kind == "mark") {
    const auto source = IpAddress::parse(take_word(line));
    const auto destination = IpAddress::parse(take_word(line));
    const auto port = number(line);
    const bool good = source && destination && port && *port <= 0xFFFF;
    if (good)
      into.marks.push_back({.source = *source,
                            .destination = *destination,
                            .source_port = static_cast<std::uint16_t>(*port)});
    return good;
  }
  return false;
}

bool take_line(std::string_view line, Ownership& into) {
  const std::string_view kind = take_word(line);
  if (kind == "nexthop") {
    const auto id = number(take_word(line));
    if (id)
      into.next_hops.push_back(*id);
    return id && line.empty();
  }
  if (kind == "rule" || kind == "rule6") {
    const std::string_view port = take_word(line);
    const auto table = number(take_word(line));
    if (table)
      into.rules.push_back(
          {.in_port = std::string(port), .table = *table, .family = rule_family(kind)});
    return table && !port.empty() && line.empty();
  }
  if (kind == "route") {
    const auto table = number(take_word(line));
    const auto destination = IpAddress::parse(line);
    if (table && destination)
      into.routes.emplace_back(*table, *destination);
    return table && destination;
  }
  return take_mark_line(kind, line, into);
}

template <class T>
bool includes(const std::vector<T>& all, const std::vector<T>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

template <class T>
std::vector<T> union_of(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> result;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result));
  return result;
}

template <class T>
void sort_unique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

void sort_unique(Ownership& ownership) {
  sort_unique(ownership.next_hops);
  sort_unique(ownership.rules);
  sort_unique(ownership.routes);
  sort_unique(ownership.mark_ports);
  sort_unique(ownership.marks);
}

}  // namespace

Ownership Ownership::of(const SteeringTables& tables, const RoutingRanges& ranges) {
  Ownership result{.ranges = ranges,
                   .rules = tables.rules,
                   .mark_table = tables.mark_table != MarkTable::none || tables.former_mark_table,
                   .mark_ports = tables.mark_ports};
  for (const NextHop& next_hop : tables.next_hops)
    result.next_hops.push_back(next_hop.id);
  for (const PinRoute& route : tables.routes)
    result.routes.emplace_back(route.table, route.destination);
  for (const MarkedFlow& marked : tables.marks)
    result.marks.push_back(marked.flow);
  sort_unique(result);
  return result;
}

bool Ownership::covers(const Ownership& other) const {
  return ranges == other.ranges && includes(next_hops, other.next_hops) &&
         includes(rules, other.rules) && includes(routes, other.routes) &&
         (mark_table || !other.mark_table) && includes(mark_ports, other.mark_ports) &&
         includes(marks, other.marks);
}

Ownership Ownership::merged(const Ownership& other) const {
  return {.ranges = other.ranges,
          .next_hops = union_of(next_hops, other.next_hops),
          .rules = union_of(rules, other.rules),
          .routes = union_of(routes, other.routes),
          .mark_table = mark_table || other.mark_table,
          .mark_ports = union_of(mark_ports, other.mark_ports),
          .marks = union_of(marks, other.marks)};
}

bool Ownership::owns_next_hop(std::uint32_t id) const {
  return std::binary_search(next_hops.begin(), next_hops.end(), id);
}

bool Ownership::owns_rule(const TableRule& rule) const {
  return std::binary_search(rules.begin(), rules.end(), rule);
}

bool Ownership::owns_route(std::uint32_t table, const IpAddress& destination) const {
  return std::binary_search(routes.begin(), routes.end(), std::pair(table, destination));
}

bool Ownership::owns_mark_port(const std::string& port) const {
  return std::binary_search(mark_ports.begin(), mark_ports.end(), port);
}

bool Ownership::owns_mark(const ByQueuePair& flow) const {
  return std::binary_search(marks.begin(), marks.end(), flow);
}

OwnershipFile::OwnershipFile(const std::string& state_dir, std::string boot_id)
    : path_(state_dir + "/installed"), boot_id_(std::move(boot_id)) {}

Result<Ownership> OwnershipFile::load() {
  const auto content = read_small_file(path_);
  if (!content) {
    if (content.error().code == Errc::not_found)
      return Ownership{};
    return tl::unexpected(content.error());
  }
  Ownership result;
  std::string_view rest = *content;
  bool ended = false;
  for (int line_number = 1; !rest.empty(); ++line_number) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    const bool whole = end != std::string_view::npos;
    rest.remove_prefix(whole ? end + 1 : rest.size());
    bool good = whole && !ended;
    if (good && line_number == 1) {
      const auto title = take_title(line);
      good = title.has_value();
      if (good && title->boot_id != boot_id_)
        return Ownership{};
      if (good)
        result.ranges = title->ranges;
    } else if (good && line == "end") {
      ended = true;
    } else if (good) {
      good = take_line(line, result);
    }
    if (!good)
      return fail(Errc::parse,
                  fmt::format("{}:{}: not a record of what is installed", path_, line_number));
  }
  if (!ended)
    return fail(Errc::parse, fmt::format("{}: the record of what is installed is cut off", path_));
  sort_unique(result);
  return result;
}

Result<void> OwnershipFile::save(const Ownership& ownership) {
  std::string text = title_of(boot_id_, ownership.ranges);
  auto out = std::back_inserter(text);
  for (const std::uint32_t id : ownership.next_hops)
    fmt::format_to(out, "nexthop {}\n", id);
  for (const TableRule& rule : ownership.rules) {
    const char* const family = rule.family == Family::v6 ? "6" : "";
    if (rule.in_port.empty())
      fmt::format_to(out, "markrule{} {}\n", family, rule.table);
    else
      fmt::format_to(out, "rule{} {} {}\n", family, rule.in_port, rule.table);
  }
  for (const auto& [table, destination] : ownership.routes)
    fmt::format_to(out, "route {} {}\n", table, to_string(destination));
  if (ownership.mark_table)
    text += "marktable\n";
  for (const std::string& port : ownership.mark_ports)
    fmt::format_to(out, "markport {}\n", port);
  for (const ByQueuePair& flow : ownership.marks)
    fmt::format_to(out, "mark {} {} {}\n", to_string(flow.source), to_string(flow.destination),
                   flow.source_port);
  text += "end\n";
  return replace_file(path_, text);
}

Result<RoutingRanges> recorded_ranges(const std::string& state_dir, const std::string& boot_id) {
  const auto record = OwnershipFile(state_dir, boot_id).load();
  if (!record)
    return tl::unexpected(record.error());
  return record->ranges.value_or(RoutingRanges{});
}

}  // namespace heddle
