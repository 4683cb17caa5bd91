#include <arpa/inet.h>
#include <endian.h>
#include <fmt/format.h>
#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "agent/netlink/attributes.h"
#include "agent/netlink/mark_format.h"
#include "agent/netlink/marks.h"

namespace heddle {
namespace {

template <class Key>
ByQueuePair flow_of(const Key& key, Family family) {
  ByQueuePair flow;
  flow.source.family = flow.destination.family = family;
  std::uint16_t port{};
  const std::size_t size = flow.source.size();
  std::memcpy(flow.source.octets.data(), key.data(), size);
  std::memcpy(flow.destination.octets.data(), key.data() + size, size);
  std::memcpy(&port, key.data() + 2 * size, sizeof port);
  flow.source_port = ntohs(port);
  return flow;
}

bool carries_signature(MarkFormat format, const Attributes& a, std::size_t type) {
  const std::string_view signature = format == MarkFormat::present ? kSignature : kFormerSignature;
  const auto data = a.bytes(type);
  return data.size() == signature.size() &&
         std::memcmp(data.data(), signature.data(), data.size()) == 0;
}

}  // namespace

bool concerns_table(const nlmsghdr& message, MarkFormat format, const std::string& table) {
  const auto head = body<nfgenmsg>(message);
  return message.nlmsg_type >> 8U == NFNL_SUBSYS_NFTABLES && head &&
         head->nfgen_family == family_of(format) &&
         attributes<nfgenmsg>(message).text(NFTA_TABLE_NAME) == table;
}

void MarkTableReading::take(const nlmsghdr& message) {
  if (!concerns_table(message, format_, table_))
    return;
  const auto a = attributes<nfgenmsg>(message);
  switch (message.nlmsg_type & 0xFFU) {
    case NFT_MSG_NEWTABLE:
      table_seen_ = true;
      result_.is_signed = carries_signature(format_, a, NFTA_TABLE_USERDATA);
      uses_ = a.network_number(NFTA_TABLE_USE).value_or(0);
      table_fits_ = (a.network_number(NFTA_TABLE_FLAGS).value_or(0) & NFT_TABLE_F_DORMANT) == 0;
      break;
    case NFT_MSG_NEWCHAIN:
      take_chain(message);
      break;
    case NFT_MSG_NEWRULE:
      take_rule(message);
      break;
    case NFT_MSG_NEWSET:
      take_set(message);
      break;
    case NFT_MSG_NEWSETELEM:
      take_elements(message);
      break;
    default:
      break;
  }
}

void MarkTableReading::take_chain(const nlmsghdr& message) {
  const auto a = attributes<nfgenmsg>(message);
  ++counted(MarkDump::chains);
  if (const std::string name = a.text(NFTA_CHAIN_NAME); name != kChain) {
    foreign(MarkDump::chains).push_back("chain " + name);
    return;
  }
  parts_.chain = true;
  const Attributes hook = a.nest(NFTA_CHAIN_HOOK);
  chain_fits_ = carries_signature(format_, a, NFTA_CHAIN_USERDATA) &&
                a.text(NFTA_CHAIN_TYPE) == "filter" &&
                hook.network_number(NFTA_HOOK_HOOKNUM) == NF_INET_PRE_ROUTING &&
                hook.network_number(NFTA_HOOK_PRIORITY) == kPriority &&
                a.network_number(NFTA_CHAIN_POLICY) == kAccept;
}

void MarkTableReading::take_rule(const nlmsghdr& message) {
  const auto a = attributes<nfgenmsg>(message);
  const std::string chain = a.text(NFTA_RULE_CHAIN);
  if (chain == kChain && carries_signature(format_, a, NFTA_RULE_USERDATA))
    parts_.rules.push_back(be64toh(a.value<std::uint64_t>(NFTA_RULE_HANDLE).value_or(0)));
  else
    foreign(MarkDump::rules).push_back(fmt::format("a rule in chain {}", chain));
}

void MarkTableReading::take_set(const nlmsghdr& message) {
  const auto a = attributes<nfgenmsg>(message);
  const std::string name = a.text(NFTA_SET_NAME);
  const std::uint32_t flags = a.network_number(NFTA_SET_FLAGS).value_or(0);
  const auto key_length = a.network_number(NFTA_SET_KEY_LEN);
  ++counted(MarkDump::sets);
  const auto is_map = [&](std::size_t key_size) {
    return flags == NFT_SET_MAP && key_length == key_size &&
           a.network_number(NFTA_SET_DATA_LEN) == sizeof(std::uint32_t);
  };
  const bool fits =
      (name == kPorts && flags == 0 && key_length == sizeof(PortKeyBytes)) ||
      (name == kFlows && is_map(sizeof(FlowKeyBytes))) ||
      (name == kFlowsV6 && format_ == MarkFormat::present && is_map(sizeof(FlowKeyBytesV6)));
  if (fits)
    parts_.sets.push_back(name);
  else if ((flags & NFT_SET_ANONYMOUS) == 0)  // those belong to rules
    foreign(MarkDump::sets).push_back("set " + name);
}

void MarkTableReading::take_elements(const nlmsghdr& message) {
  const auto a = attributes<nfgenmsg>(message);
  const std::string set = a.text(NFTA_SET_ELEM_LIST_SET);
  const MarkDump where = set == kPorts   ? MarkDump::ports
                         : set == kFlows ? MarkDump::flows
                                         : MarkDump::flows_v6;
  for_each_list_element(
      a.bytes(NFTA_SET_ELEM_LIST_ELEMENTS), [&](std::span<const std::byte> bytes) {
        const Attributes element(bytes.data(), bytes.size());
        const Attributes key = element.nest(NFTA_SET_ELEM_KEY);
        std::string port = key.text(NFTA_DATA_VALUE);
        const auto flow = key.value<FlowKeyBytes>(NFTA_DATA_VALUE);
        const auto flow_v6 = key.value<FlowKeyBytesV6>(NFTA_DATA_VALUE);
        const auto mark = element.nest(NFTA_SET_ELEM_DATA).number(NFTA_DATA_VALUE);
        if (set == kPorts && !port.empty())
          result_.ports.push_back(std::move(port));
        else if (set == kFlows && flow && mark)
          result_.flows.push_back({.flow = flow_of(*flow, Family::v4), .mark = *mark});
        else if (set == kFlowsV6 && flow_v6 && mark)
          result_.flows.push_back({.flow = flow_of(*flow_v6, Family::v6), .mark = *mark});
        else  // what stands for everything that has no element, above all
          foreign(where).push_back("an element without a key in set " + set);
      });
}

void MarkTableReading::forget(MarkDump what) {
  foreign(what).clear();
  counted(what) = 0;
  switch (what) {
    case MarkDump::chains:
      chain_fits_ = parts_.chain = false;
      break;
    case MarkDump::rules:
      parts_.rules.clear();
      break;
    case MarkDump::sets:
      parts_.sets.clear();
      break;
    case MarkDump::ports:
      result_.ports.clear();
      break;
    case MarkDump::flows:
    case MarkDump::flows_v6: {
      const bool v6 = what == MarkDump::flows_v6;
      std::erase_if(result_.flows, [&](const MarkedFlow& m) { return is_v6(m.flow) == v6; });
      break;
    }
  }
}

bool MarkTableReading::has(MarkDump elements) const {
  const char* const set = elements == MarkDump::ports   ? kPorts
                          : elements == MarkDump::flows ? kFlows
                                                        : kFlowsV6;
  return std::ranges::find(parts_.sets, set) != parts_.sets.end();
}

KernelMarkTable MarkTableReading::finish() && {
  for (std::vector<std::string>& list : foreign_)
    std::move(list.begin(), list.end(), std::back_inserter(result_.foreign));
  // Chains and sets were seen one by one; counters, flowtables and so on have only their number.
  const std::uint32_t seen = counted(MarkDump::chains) + counted(MarkDump::sets);
  if (uses_ > seen)
    result_.foreign.push_back(fmt::format("objects or flowtables ({})", uses_ - seen));
  result_.whole = table_fits_ && chain_fits_ && parts_.sets.size() == 3 &&
                  parts_.rules.size() == std::size(kFamilies);
  return std::move(result_);
}

}  // namespace heddle
