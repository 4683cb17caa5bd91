#include "coordinator/optimise/whatif.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

namespace {

void add_attachments(const Topology& topology, const std::vector<AttachmentId>& attachments,
                     std::vector<LinkId>& links) {
  for (const AttachmentId id : attachments) {
    links.push_back(topology.nic_tx(id));
    links.push_back(topology.nic_rx(id));
  }
}

void add_cables(const Topology& topology, const std::vector<CableId>& cables,
                std::vector<LinkId>& links) {
  for (const CableId id : cables) {
    links.push_back(topology.uplink(id));
    links.push_back(topology.downlink(id));
  }
}

}  // namespace

Result<std::vector<LinkId>> links_named(const Topology& topology, const std::string& name) {
  std::vector<LinkId> links;
  if (const auto spine = topology.find_spine(name)) {
    add_cables(topology, topology[*spine].cables, links);
    return links;
  }
  if (const auto leaf = topology.find_leaf(name)) {
    add_cables(topology, topology[*leaf].cables, links);
    add_attachments(topology, topology[*leaf].attachments, links);
    return links;
  }
  if (const auto host = topology.find_host(name)) {
    for (const NicId nic : topology[*host].nics)
      add_attachments(topology, topology[nic].attachments, links);
    return links;
  }
  // The two directions of a cable are neighbours: an even number and the odd one after it.
  for (std::uint32_t i = 0; i < topology.link_count(); ++i)
    if (topology.link_name({i}) == name)
      return std::vector<LinkId>{{i & ~1U}, {i | 1U}};
  return fail(Errc::not_found,
              fmt::format("the fabric has no leaf, spine, host or link '{}'; links are named as in "
                          "'heddle links'",
                          name));
}

void assume_down(const std::vector<LinkId>& links, LinkState& state) {
  for (const LinkId link : links)
    state.set(link, false);
}

void assume_up(const Topology& topology, const std::vector<LinkId>& links, LinkState& state,
               std::vector<Forbidden>& forbidden) {
  for (const LinkId link : links) {
    state.set(link, true);
    if (!topology.is_core(link))
      continue;
    const CableId cable{link.value / 2};
    const auto back = [&](const Forbidden& way) {
      return way.up == cable ||
             (way.to == topology[cable].leaf && topology[way.up].spine == topology[cable].spine);
    };
    std::erase_if(forbidden, back);
  }
}

void expect_job(const Topology& topology, const JobDeclaration& job, Prediction& prediction) {
  const JobId id{static_cast<std::uint32_t>(prediction.jobs.size())};
  PredictedJob expected{.name = job.name, .declared = true, .hosts = job.hosts};
  std::ranges::sort(expected.hosts);
  prediction.jobs.push_back(std::move(expected));
  prediction.demand.jobs.push_back({.name = job.name});
  for (std::size_t i = 0; i < job.hosts.size(); ++i) {
    const auto from = topology.find_host(job.hosts[i]);
    const auto to = topology.find_host(job.hosts[(i + 1) % job.hosts.size()]);
    if (!from || !to || *from == *to)
      continue;
    const auto& senders = topology[*from].nics;
    const auto& receivers = topology[*to].nics;
    for (std::size_t rail = 0; rail < std::min(senders.size(), receivers.size()); ++rail) {
      const auto& source = topology[senders[rail]];
      prediction.demand.flows.push_back(
          {.job = id, .phase = 0, .source = senders[rail], .destination = receivers[rail]});
      prediction.flows.push_back(
          {.subflows = {{source.address, topology[receivers[rail]].address, 0, 0}},
           .observed = {CableId{}},
           .entry = source.attachments.front()});
    }
  }
}

}  // namespace heddle
