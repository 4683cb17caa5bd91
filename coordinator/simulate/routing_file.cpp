#include "coordinator/simulate/routing_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace heddle::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kMostPhases = 1024;
constexpr std::uint32_t kMostCables = 1024;
// Every phase is judged with all flows: beyond this many pairs of them it takes minutes.
constexpr std::uint64_t kMostFlowsTimesPhases = 200'000'000;

std::string nic_name(const Topology& topology, NicId id) {
  return topology[topology[id].host].name + "/" + topology[id].name;
}

// The place of a cable among those that are parallel to it.
std::uint32_t number_of(const Topology& topology, CableId id) {
  const auto cables = topology.cables_between(topology[id].leaf, topology[id].spine);
  return static_cast<std::uint32_t>(std::ranges::find(cables, id) - cables.begin());
}

Json path_json(const Topology& topology, const Path& path) {
  if (!path.routable())
    return nullptr;
  Json json{{"spine", nullptr}, {"cable", nullptr}};
  if (path.crosses_core()) {
    json["spine"] = topology[topology[path.up].spine].name;
    json["cable"] = number_of(topology, path.up);
    json["down_cable"] = path.down.valid() ? Json(number_of(topology, path.down)) : Json(nullptr);
  }
  // With one attachment there is nothing to say.
  for (const auto& [key, id] :
       {std::pair("src_attachment", path.from), std::pair("dst_attachment", path.to)}) {
    const auto& attachments = topology[topology[id].nic].attachments;
    if (attachments.size() > 1)
      json[key] = std::ranges::find(attachments, id) - attachments.begin();
  }
  return json;
}

Json nic_json(const Topology& topology, NicId id) {
  const auto port = [&](AttachmentId attachment) {
    return Json{{"leaf", topology[topology[attachment].leaf].name},
                {"capacity_bps", topology[attachment].capacity.bits_per_second}};
  };
  const auto& attachments = topology[id].attachments;
  Json json{{"name", nic_name(topology, id)}};
  json.update(port(attachments.front()));
  if (attachments.size() > 1)
    for (const AttachmentId attachment : attachments)
      json["attachments"].push_back(port(attachment));
  return json;
}

// What goes wrong below is thrown to read_routing, which makes it a value.
struct Fault {
  std::string message;
};
template <class... Args>
[[noreturn]] void complain(fmt::format_string<Args...> format, Args&&... args) {
  throw Fault{fmt::format(format, std::forward<Args>(args)...)};
}

const Json& member(const Json& object, const char* key, std::string_view of) {
  if (!object.is_object() || !object.contains(key))
    complain("{} has no \"{}\"", of, key);
  return object[key];
}

std::string text(const Json& object, const char* key, std::string_view of) {
  const Json& value = member(object, key, of);
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    complain("\"{}\" of {} is not a text", key, of);
  return value.get<std::string>();
}

double positive(const Json& object, const char* key, std::string_view of) {
  const Json& value = member(object, key, of);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0)
    complain("\"{}\" of {} must be a finite number above zero", key, of);
  return value.get<double>();
}

std::uint32_t count(const Json& object, const char* key, std::string_view of, std::uint32_t most) {
  const Json& value = member(object, key, of);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= most)
    complain("\"{}\" of {} must be a whole number below {}", key, of, most);
  return value.get<std::uint32_t>();
}

const Json& list(const Json& object, const char* key, std::string_view of) {
  const Json& value = member(object, key, of);
  if (!value.is_array())
    complain("\"{}\" of {} is not a list", key, of);
  return value;
}

class Reader {
 public:
  explicit Reader(const Json& file) : file_(file) {}

  RoutedDemand read() {
    Topology topology = read_fabric();
    RoutedDemand result{.topology = topology,
                        .links = LinkState(topology),
                        .background = {},
                        .demand = {},
                        .routing = {}};
    set_links(result);
    if (list(file_, "flows", "the file").empty())
      complain("there is no flow in the file, so there is nothing to judge");
    for (const Json& flow : list(file_, "flows", "the file"))
      add_flow(result, flow);
    number_phases(result.demand);
    return result;
  }

 private:
  Topology read_fabric() {
    const Json& fabric = member(file_, "fabric", "the file");
    FabricDescription description{
        .name = "imported", .leaves = {}, .spines = {}, .hosts = {}, .cables = {}};
    std::map<std::string, bool> leaves, spines;
    std::map<std::pair<std::string, std::string>, std::uint32_t> next;
    for (const Json& link : list(fabric, "links", "the fabric")) {
      const std::string leaf = text(link, "leaf", "a link"), spine = text(link, "spine", "a link");
      const std::string name = fmt::format("link {}-{}", leaf, spine);
      const std::uint32_t cable = count(link, "cable", name, kMostCables);
      if (cable != next[{leaf, spine}]++)
        complain("the cables of {} are not numbered 0, 1, 2 in this order", name);
      if (!std::exchange(leaves[leaf], true))
        description.leaves.push_back({.name = leaf, .rack = leaf});
      if (!std::exchange(spines[spine], true))
        description.spines.push_back({.name = spine});
      description.cables.push_back({.leaf = leaf,
                                    .spine = spine,
                                    .leaf_port = fmt::format("{}#{}", spine, cable),
                                    .spine_port = fmt::format("{}#{}", leaf, cable),
                                    .capacity = {positive(link, "capacity_bps", name)}});
    }
    const std::map<std::string, std::string> leaf_of = leaves_by_flow();
    std::uint32_t number = 0;
    for (const Json& nic : list(fabric, "nics", "the fabric")) {
      const std::string name = text(nic, "name", "a NIC");
      const auto ports = read_ports(nic, name, leaf_of, number + 1);
      if (ports.empty())
        continue;  // it takes no part, and nothing says where it is
      if (!nics_.emplace(name, NicId{number}).second)
        complain("NIC {} is named twice", name);
      ++number;
      for (const FabricDescription::Attachment& port : ports)
        if (!std::exchange(leaves[port.leaf], true))
          description.leaves.push_back({.name = port.leaf, .rack = port.leaf});
      description.hosts.push_back(
          {.name = name,
           .rack = ports.front().leaf,
           .nics = {{.name = "nic",
                     .address = fmt::format("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255,
                                            number & 255),
                     .attachments = ports}}});
    }
    auto topology = Topology::build(description);
    if (!topology)
      complain("{}", topology.error().front().message);
    return *std::move(topology);
  }

  // Where a NIC is; nothing if nobody says it.
  static std::vector<FabricDescription::Attachment> read_ports(
      const Json& nic, const std::string& name, const std::map<std::string, std::string>& leaf_of,
      std::uint32_t number) {
    std::vector<FabricDescription::Attachment> ports;
    const auto add = [&](const std::string& leaf, const Json& port) {
      ports.push_back({.leaf = leaf,
                       .leaf_port = fmt::format("nic{}.{}", number, ports.size()),
                       .capacity = {positive(port, "capacity_bps", name)}});
    };
    if (nic.contains("attachments")) {
      for (const Json& port : list(nic, "attachments", name))
        add(text(port, "leaf", name), port);
      if (ports.empty())
        complain("NIC {} has no attachment", name);
    } else if (nic.contains("leaf")) {
      add(text(nic, "leaf", name), nic);
    } else if (const auto leaf = leaf_of.find(name); leaf != leaf_of.end()) {
      add(leaf->second, nic);
    }
    return ports;
  }

  // Where the flows say their NICs are.
  std::map<std::string, std::string> leaves_by_flow() const {
    std::map<std::string, std::string> leaf_of;
    for (const Json& flow : list(file_, "flows", "the file")) {
      leaf_of.emplace(text(flow, "src", "a flow"), text(flow, "src_leaf", "a flow"));
      leaf_of.emplace(text(flow, "dst", "a flow"), text(flow, "dst_leaf", "a flow"));
    }
    return leaf_of;
  }

  void set_links(RoutedDemand& result) const {
    std::uint32_t cable = 0;
    for (const Json& link : file_["fabric"]["links"]) {
      for (const auto& [direction, id] : {std::pair("up", result.topology.uplink({cable})),
                                          std::pair("down", result.topology.downlink({cable}))}) {
        if (!member(link, direction, "a link").is_boolean())
          complain("\"{}\" of a link is neither true nor false", direction);
        result.links.set(id, link[direction].get<bool>());
        if (link.contains("background_bps"))
          set_background(result, id, link["background_bps"], direction);
      }
      ++cable;
    }
  }

  static void set_background(RoutedDemand& result, LinkId id, const Json& background,
                             const char* direction) {
    constexpr const char* kOf = "\"background_bps\" of a link";
    const Json& value = member(background, direction, kOf);
    if (!value.is_number() ||
        !(value.get<double>() >= 0 &&
          value.get<double>() <= result.topology.capacity(id).bits_per_second))
      complain("\"{}\" of {} must be a number from zero to the link's capacity", direction, kOf);
    result.background.resize(result.topology.link_count());
    result.background[id.value] = {value.get<double>()};
  }

  // One end of a flow: its NIC, and the attachment that its paths use if they name none.
  AttachmentId end_of(const Topology& topology, const Json& flow, const char* key,
                      const char* leaf_key) const {
    const std::string name = text(flow, key, "a flow"), leaf = text(flow, leaf_key, "a flow");
    const auto it = nics_.find(name);
    if (it == nics_.end())
      complain("a flow's \"{}\", {}, is not among the NICs", key, name);
    const auto& attachments = topology[it->second].attachments;
    const auto named = std::ranges::find(attachments, leaf, [&](AttachmentId attachment) {
      return topology[topology[attachment].leaf].name;
    });
    if (named == attachments.end())
      complain("NIC {} is on leaf {}, a flow says {}", name,
               topology[topology[attachments.front()].leaf].name, leaf);
    return *named;
  }

  void add_flow(RoutedDemand& result, const Json& flow) {
    const std::string job = text(flow, "job", "a flow");
    const auto [it, fresh] =
        jobs_.emplace(job, JobId{static_cast<std::uint32_t>(result.demand.jobs.size())});
    if (fresh)
      result.demand.jobs.push_back({.name = job});
    const Json& paths = list(flow, "paths", "a flow");
    if (paths.empty())
      complain("a flow of job {} has no path; an unroutable one is null", job);
    const Path ends{.from = end_of(result.topology, flow, "src", "src_leaf"),
                    .up = {},
                    .down = {},
                    .to = end_of(result.topology, flow, "dst", "dst_leaf")};
    FlowDemand demand{
        .job = it->second,
        .phase = flow.contains("phase") ? count(flow, "phase", "a flow", kMostPhases) : 0,
        .source = result.topology[ends.from].nic,
        .destination = result.topology[ends.to].nic,
        .weight = positive(flow, "weight", "a flow"),
        .subflows = static_cast<std::uint32_t>(paths.size())};
    if (demand.source == demand.destination)
      complain("{} sends to itself", text(flow, "src", "a flow"));
    for (const Json& path : paths)
      result.routing.push_back(read_path(result.topology, ends, path));
    result.demand.flows.push_back(demand);
  }

  // By the phases that occur, in their order: each number is judged, also one without flows.
  static void number_phases(Demand& demand) {
    std::vector<std::map<std::uint32_t, std::uint32_t>> numbers(demand.jobs.size());
    for (const FlowDemand& flow : demand.flows)
      numbers[flow.job.value].emplace(flow.phase, 0);
    std::uint64_t phases = 0;
    for (std::size_t j = 0; j < numbers.size(); ++j) {
      std::uint32_t next = 0;
      for (auto& [phase, number] : numbers[j])
        number = next++;
      demand.jobs[j].phases = next;
      phases += next;
    }
    if (phases * demand.flows.size() > kMostFlowsTimesPhases)
      complain("{} flows in {} phases of {} jobs are more than can be judged", demand.flows.size(),
               phases, demand.jobs.size());
    for (FlowDemand& flow : demand.flows)
      flow.phase = numbers[flow.job.value][flow.phase];
  }

  static CableId cable(const Topology& topology, LeafId leaf, SpineId spine, std::uint32_t number) {
    const auto cables = topology.cables_between(leaf, spine);
    if (number >= cables.size())
      complain("there is no cable {} between {} and {}", number, topology[leaf].name,
               topology[spine].name);
    return cables[number];
  }

  static AttachmentId attachment(const Topology& topology, AttachmentId usual, const Json& path,
                                 const char* key) {
    if (!path.contains(key))
      return usual;
    const auto& attachments = topology[topology[usual].nic].attachments;
    return attachments[count(path, key, "a path", static_cast<std::uint32_t>(attachments.size()))];
  }

  static Path read_path(const Topology& topology, const Path& ends, const Json& json) {
    if (json.is_null())
      return {};
    Path path = ends;
    path.from = attachment(topology, ends.from, json, "src_attachment");
    path.to = attachment(topology, ends.to, json, "dst_attachment");
    const LeafId from = topology[path.from].leaf, to = topology[path.to].leaf;
    if (member(json, "spine", "a path").is_null()) {
      if (from != to)
        complain("a path from {} to {} has no spine", topology[from].name, topology[to].name);
      return path;
    }
    const auto spine = topology.find_spine(text(json, "spine", "a path"));
    if (!spine)
      complain("a path's spine, {}, is not in the fabric", text(json, "spine", "a path"));
    const std::uint32_t number = count(json, "cable", "a path", kMostCables);
    path.up = cable(topology, from, *spine, number);
    const auto downs = topology.cables_between(to, *spine);
    if (downs.empty())
      complain("{} has no cable to {}", topology[*spine].name, topology[to].name);
    if (!json.contains("down_cable")) {
      if (number < downs.size())
        path.down = downs[number];
    } else if (!json["down_cable"].is_null()) {
      path.down = cable(topology, to, *spine, count(json, "down_cable", "a path", kMostCables));
    }
    return path;
  }

  const Json& file_;
  std::map<std::string, NicId> nics_;
  std::map<std::string, JobId> jobs_;
};

}  // namespace

std::string write_routing(const Topology& topology, const LinkState& links,
                          std::span<const Rate> background, const Demand& demand,
                          const Routing& routing) {
  Json fabric_links = Json::array(), nics = Json::array(), flows = Json::array();
  for (std::uint32_t c = 0; c < topology.cables().size(); ++c) {
    const CableId id{c};
    fabric_links.push_back({{"leaf", topology[topology[id].leaf].name},
                            {"spine", topology[topology[id].spine].name},
                            {"cable", number_of(topology, id)},
                            {"capacity_bps", topology[id].capacity.bits_per_second},
                            {"up", links.up(topology.uplink(id))},
                            {"down", links.up(topology.downlink(id))}});
    if (!background.empty())
      fabric_links.back()["background_bps"] = {
          {"up", background[topology.uplink(id).value].bits_per_second},
          {"down", background[topology.downlink(id).value].bits_per_second}};
  }
  const auto leaf_name = [&](NicId id) {
    return topology[topology[topology[id].attachments.front()].leaf].name;
  };
  for (std::uint32_t n = 0; n < topology.nics().size(); ++n)
    nics.push_back(nic_json(topology, {n}));
  std::size_t subflow = 0;
  for (const FlowDemand& flow : demand.flows) {
    Json paths = Json::array();
    for (std::uint32_t q = 0; q < flow.subflows; ++q)
      paths.push_back(path_json(topology, routing[subflow++]));
    flows.push_back({{"job", demand.jobs[flow.job.value].name},
                     {"phase", flow.phase},
                     {"src", nic_name(topology, flow.source)},
                     {"dst", nic_name(topology, flow.destination)},
                     {"src_leaf", leaf_name(flow.source)},
                     {"dst_leaf", leaf_name(flow.destination)},
                     {"weight", flow.weight},
                     {"paths", std::move(paths)}});
  }
  const Json file{{"fabric", {{"links", std::move(fabric_links)}, {"nics", std::move(nics)}}},
                  {"flows", std::move(flows)}};
  return file.dump() + "\n";
}

Result<RoutedDemand> read_routing(std::string_view json) {
  const Json file = Json::parse(json, nullptr, false);
  if (file.is_discarded())
    return fail(Errc::parse, "this is not JSON");
  try {
    return Reader(file).read();
  } catch (const Fault& fault) {
    return fail(Errc::invalid_argument, fault.message);
  }
}

}  // namespace heddle::sim
