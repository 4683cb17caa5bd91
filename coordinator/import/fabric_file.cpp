#include "coordinator/import/fabric_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "coordinator/import/fields.h"
#include "coordinator/import/yaml_tree.h"

namespace heddle {
namespace {

// Stands for a capacity that could not be read, so that the checks that follow complain of other
// things only.
constexpr Rate kUnread{1.0};

// A topology has a place for every pair of leaf and spine, so a small file could ask for a great
// deal of memory.
constexpr std::size_t kMostPairs = 4'000'000;

tl::unexpected<Mistakes> in_order(Mistakes mistakes) {
  std::stable_sort(mistakes.begin(), mistakes.end(),
                   [](const Mistake& a, const Mistake& b) { return a.line < b.line; });
  return tl::unexpected(std::move(mistakes));
}

// Each reader below gives nothing when what identifies the entry cannot be read: the mistake is
// noted, and an entry without identity would only make the later checks repeat it in other words.

std::optional<FabricDescription::Leaf> read_leaf(const YamlNode& node, Mistakes& mistakes) {
  const Fields fields(node, "a leaf", {"name", "rack"}, mistakes);
  const auto name = fields.name("name");
  const auto rack = fields.optional_name("rack");
  if (!name)
    return {};
  return FabricDescription::Leaf{*name, rack.value_or(""), fields.line()};
}

std::optional<FabricDescription::Spine> read_spine(const YamlNode& node, Mistakes& mistakes) {
  const Fields fields(node, "a spine", {"name"}, mistakes);
  const auto name = fields.name("name");
  if (!name)
    return {};
  return FabricDescription::Spine{*name, fields.line()};
}

std::optional<FabricDescription::Attachment> read_attachment(const YamlNode& node,
                                                             Mistakes& mistakes) {
  const Fields fields(node, "an attachment", {"leaf", "port", "host_port", "capacity"}, mistakes);
  const auto leaf = fields.name("leaf");
  const auto port = fields.port("port");
  const auto capacity = fields.capacity("capacity");
  if (!leaf || !port)
    return {};
  return FabricDescription::Attachment{*leaf, *port, capacity.value_or(kUnread), fields.line(),
                                       fields.optional_port("host_port").value_or("")};
}

std::optional<FabricDescription::Nic> read_nic(const YamlNode& node, Mistakes& mistakes) {
  const Fields fields(node, "a NIC", {"name", "address", "attachments"}, mistakes);
  const std::size_t before = mistakes.size();
  FabricDescription::Nic nic;
  nic.line = fields.line();
  const auto name = fields.port("name");
  const auto address = fields.text("address");
  fields.list("attachments", [&](const YamlNode& item) {
    if (auto attachment = read_attachment(item, mistakes))
      nic.attachments.push_back(std::move(*attachment));
  });
  const bool spoilt = nic.attachments.empty() && mistakes.size() > before;
  if (!name || !address || spoilt)
    return {};
  nic.name = *name;
  nic.address = *address;
  return nic;
}

std::optional<FabricDescription::Host> read_host(const YamlNode& node, Mistakes& mistakes) {
  const Fields fields(node, "a host", {"name", "rack", "nics"}, mistakes);
  const std::size_t before = mistakes.size();
  FabricDescription::Host host;
  host.line = fields.line();
  const auto name = fields.name("name");
  const auto rack = fields.optional_name("rack");
  const bool listed = fields.list("nics", [&](const YamlNode& item) {
    if (auto nic = read_nic(item, mistakes))
      host.nics.push_back(std::move(*nic));
  });
  if (listed && host.nics.empty() && mistakes.size() == before)
    mistakes.push_back({host.line, "a host has at least one NIC"});
  if (!name)
    return {};
  host.name = *name;
  host.rack = rack.value_or("");
  return host;
}

std::optional<FabricDescription::Cable> read_cable(const YamlNode& node, Mistakes& mistakes) {
  const Fields fields(node, "a cable", {"leaf", "spine", "leaf_port", "spine_port", "capacity"},
                      mistakes);
  const auto leaf = fields.name("leaf");
  const auto spine = fields.name("spine");
  const auto leaf_port = fields.port("leaf_port");
  const auto spine_port = fields.port("spine_port");
  const auto capacity = fields.capacity("capacity");
  if (!leaf || !spine || !leaf_port || !spine_port)
    return {};
  return FabricDescription::Cable{
      *leaf, *spine, *leaf_port, *spine_port, capacity.value_or(kUnread), fields.line()};
}

FabricDescription read_fabric(const YamlNode& root, Mistakes& mistakes) {
  FabricDescription fabric;
  const Fields fields(root, "a fabric", {"fabric", "leaves", "spines", "hosts", "cables"},
                      mistakes);
  fabric.name = fields.name("fabric").value_or("");
  const auto into = [&](auto& entries, auto reader) {
    return [&entries, reader, &mistakes](const YamlNode& node) {
      if (auto entry = reader(node, mistakes))
        entries.push_back(std::move(*entry));
    };
  };
  fields.list("leaves", into(fabric.leaves, read_leaf));
  fields.list("spines", into(fabric.spines, read_spine));
  fields.list("hosts", into(fabric.hosts, read_host));
  fields.list("cables", into(fabric.cables, read_cable));
  return fabric;
}

std::optional<JobDeclaration> read_job(const YamlNode& node, const Topology& topology,
                                       Mistakes& mistakes) {
  const Fields fields(node, "a job", {"name", "hosts"}, mistakes);
  JobDeclaration job;
  job.line = fields.line();
  const auto name = fields.name("name");
  const std::string shown = name.value_or("?");
  std::set<std::string> members;
  const std::size_t before = mistakes.size();
  const bool listed = fields.list("hosts", [&](const YamlNode& item) {
    if (item.kind != YamlNode::Kind::scalar)
      mistakes.push_back({item.line, fmt::format("job '{}': a host is given by its name", shown)});
    else if (const std::string fault = name_fault(item.text); !fault.empty())
      mistakes.push_back({item.line, fmt::format("job '{}': {}", shown, fault)});
    else if (!topology.find_host(item.text))
      mistakes.push_back(
          {item.line, fmt::format("job '{}': the fabric has no host '{}'", shown, item.text)});
    else if (!members.insert(item.text).second)
      mistakes.push_back(
          {item.line, fmt::format("job '{}' names host '{}' twice", shown, item.text)});
    else
      job.hosts.push_back(item.text);
  });
  if (listed && job.hosts.empty() && mistakes.size() == before)
    mistakes.push_back({job.line, fmt::format("job '{}' has no hosts", shown)});
  if (!name)
    return {};
  job.name = *name;
  return job;
}

tl::expected<std::string, Mistakes> read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  // One byte more than is allowed is enough to see that it is too much, also of an endless device.
  const std::size_t limit = YamlLimits{}.bytes + 1;
  char block[65536];
  while (file && text.size() < limit) {
    file.read(block, sizeof block);
    text.append(block, static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof() && text.size() < limit) {
    const int code = errno;
    return tl::unexpected(Mistakes{
        {0, fmt::format("cannot be read: {}", code != 0 ? std::strerror(code) : "input error")}});
  }
  return text;
}

}  // namespace

Result<Rate> parse_capacity(std::string_view text) {
  double value{};
  const char* const end = text.data() + text.size();
  // from_chars would also take "inf" and "nan", which no cable carries.
  const bool begins = !text.empty() && text.front() >= '0' && text.front() <= '9';
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  double factor = 0.0;
  if (unit.empty())
    factor = 1.0;
  if (unit == "K")
    factor = 1e3;
  if (unit == "M")
    factor = 1e6;
  if (unit == "G")
    factor = 1e9;
  if (unit == "T")
    factor = 1e12;
  if (!begins || error != std::errc{} || factor == 0.0 || !std::isfinite(value * factor))
    return fail(Errc::invalid_argument,
                fmt::format("'{}' is no capacity (bits per second, with K, M, G or T: 100G)",
                            text.substr(0, 40)));
  if (value <= 0.0)
    return fail(Errc::invalid_argument, "a capacity is more than zero");
  return Rate{value * factor};
}

tl::expected<Topology, Mistakes> parse_fabric(std::string_view yaml) {
  const auto root = parse_yaml(yaml);
  if (!root)
    return tl::unexpected(Mistakes{root.error()});
  Mistakes mistakes;
  const FabricDescription description = read_fabric(*root, mistakes);
  if (description.leaves.size() * description.spines.size() > kMostPairs) {
    mistakes.push_back(
        {0, fmt::format("{} leaves x {} spines are more than the {} pairs that are handled",
                        description.leaves.size(), description.spines.size(), kMostPairs)});
    return in_order(std::move(mistakes));
  }
  auto topology = Topology::build(description);
  if (!topology)
    mistakes.insert(mistakes.end(), topology.error().begin(), topology.error().end());
  if (!mistakes.empty())
    return in_order(std::move(mistakes));
  return topology;
}

tl::expected<Topology, Mistakes> load_fabric(const std::string& path) {
  const auto text = read_file(path);
  if (!text)
    return tl::unexpected(text.error());
  return parse_fabric(*text);
}

tl::expected<std::vector<JobDeclaration>, Mistakes> parse_jobs(std::string_view yaml,
                                                               const Topology& topology) {
  const auto root = parse_yaml(yaml);
  if (!root)
    return tl::unexpected(Mistakes{root.error()});
  Mistakes mistakes;
  std::vector<JobDeclaration> jobs;
  std::set<std::string> names;
  const Fields fields(*root, "a job file", {"jobs"}, mistakes);
  fields.list("jobs", [&](const YamlNode& node) {
    auto job = read_job(node, topology, mistakes);
    if (!job)
      return;
    if (!names.insert(job->name).second)
      mistakes.push_back({job->line, fmt::format("job '{}' is declared twice", job->name)});
    jobs.push_back(std::move(*job));
  });
  if (!mistakes.empty())
    return in_order(std::move(mistakes));
  return jobs;
}

tl::expected<std::vector<JobDeclaration>, Mistakes> load_jobs(const std::string& path,
                                                              const Topology& topology) {
  const auto text = read_file(path);
  if (!text)
    return tl::unexpected(text.error());
  return parse_jobs(*text, topology);
}

std::string describe(std::string_view file, const Mistakes& mistakes) {
  std::string out;
  for (const Mistake& mistake : mistakes) {
    if (mistake.line > 0)
      out += fmt::format("{}:{}: {}\n", file, mistake.line, mistake.message);
    else
      out += fmt::format("{}: {}\n", file, mistake.message);
  }
  return out;
}

}  // namespace heddle
