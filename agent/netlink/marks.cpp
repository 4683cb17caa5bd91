#include "agent/netlink/marks.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "agent/netlink/mark_format.h"

namespace heddle {
namespace {

// Tells nft that a set's key (type 0) or data (type 1) is in the machine's own byte order.
constexpr std::array<std::uint8_t, 6> kKeyInOurOrder{0, 4, 1, 0, 0, 0};
constexpr std::array<std::uint8_t, 6> kDataInOurOrder{1, 4, 1, 0, 0, 0};
constexpr std::uint16_t kRocePort = 4791;
// What nft calls the types of keys and data; the kernel only keeps these numbers.
constexpr std::uint32_t kTypeAddress = 7;
constexpr std::uint32_t kTypeAddressV6 = 8;
constexpr std::uint32_t kTypeService = 13;
constexpr std::uint32_t kTypeMark = 19;
constexpr std::uint32_t kTypePort = 41;
// Where the parts of a flow lie in the packet.
constexpr std::uint32_t kSourceAt = 12;
constexpr std::uint32_t kSourceAtV6 = 8;
// A list's length is told in 16 bits.
constexpr std::size_t kElementsAtOnce = 500;

template <class Key>
Key key_of(const ByQueuePair& flow) {
  Key key{};
  const std::uint16_t port = htons(flow.source_port);
  const std::size_t size = flow.source.size();
  std::memcpy(key.data(), flow.source.octets.data(), size);
  std::memcpy(key.data() + size, flow.destination.octets.data(), size);
  std::memcpy(key.data() + 2 * size, &port, sizeof port);
  return key;
}

nfgenmsg head_of(int family) {
  return {.nfgen_family = static_cast<std::uint8_t>(family),
          .version = NFNETLINK_V0,
          .res_id = htons(family == AF_UNSPEC ? NFNL_SUBSYS_NFTABLES : 0)};
}

class Writer {
 public:
  Writer(Batch& batch, MarkFormat format, const std::string& table)
      : batch_(batch), family_(family_of(format)), table_(table) {}

  void begin_transaction() {
    batch_.begin(NFNL_MSG_BATCH_BEGIN, 0, head_of(AF_UNSPEC));
    batch_.mark_as_transaction();
  }
  void end_transaction() {
    batch_.acknowledge_last();
    batch_.begin(NFNL_MSG_BATCH_END, 0, head_of(AF_UNSPEC));
  }

  // All of these messages name the table by attribute 1.
  Batch& begin(int message, std::uint16_t flags) {
    return batch_.begin(type_of(message), flags, head_of(family_)).text(NFTA_TABLE_NAME, table_);
  }

  void make_table(std::string_view table_comment = kSignature,
                  std::string_view chain_comment = kSignature) {
    constexpr std::uint16_t kCreate = NLM_F_CREATE | NLM_F_EXCL;
    begin(NFT_MSG_NEWTABLE, kCreate)
        .attribute(NFTA_TABLE_USERDATA, table_comment.data(), table_comment.size());
    begin(NFT_MSG_NEWSET, kCreate)
        .text(NFTA_SET_NAME, kPorts)
        .network_number(NFTA_SET_FLAGS, 0)
        .network_number(NFTA_SET_KEY_TYPE, kTypePort)
        .network_number(NFTA_SET_KEY_LEN, sizeof(PortKeyBytes))
        .network_number(NFTA_SET_ID, 1)
        .attribute(NFTA_SET_USERDATA, kKeyInOurOrder.data(), kKeyInOurOrder.size());
    make_map(kFlows, kTypeAddress, sizeof(FlowKeyBytes), 2);
    make_map(kFlowsV6, kTypeAddressV6, sizeof(FlowKeyBytesV6), 3);
    begin(NFT_MSG_NEWCHAIN, kCreate)
        .text(NFTA_CHAIN_NAME, kChain)
        .open(NFTA_CHAIN_HOOK)
        .network_number(NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING)
        .network_number(NFTA_HOOK_PRIORITY, kPriority)
        .close()
        .network_number(NFTA_CHAIN_POLICY, kAccept)
        .text(NFTA_CHAIN_TYPE, "filter")
        .attribute(NFTA_CHAIN_USERDATA, chain_comment.data(), chain_comment.size());
    for (const std::uint8_t family : kFamilies)
      make_rule(family);
  }

  // The kernel counts what is in a chain or a table; with this flag it does not take it along.
  void drop_table(const MarkTableParts& parts) {
    for (const std::uint64_t handle : parts.rules) {
      const std::uint64_t swapped = htobe64(handle);
      begin(NFT_MSG_DELRULE, 0)
          .text(NFTA_RULE_CHAIN, kChain)
          .attribute(NFTA_RULE_HANDLE, &swapped, sizeof swapped);
    }
    if (parts.chain)
      begin(NFT_MSG_DELCHAIN, NLM_F_NONREC).text(NFTA_CHAIN_NAME, kChain);
    for (const std::string& set : parts.sets)
      begin(NFT_MSG_DELSET, 0).text(NFTA_SET_NAME, set);
    begin(NFT_MSG_DELTABLE, NLM_F_NONREC);
  }

  void ports(int message, const std::vector<std::string>& all) {
    elements(
        message, kPorts, all, [&](const std::string& port) { port_key(port); },
        [](const std::string&) { return true; });
  }
  // Each family has a map of its own.
  template <class T, class Write>
  void flows(int message, const std::vector<T>& all, Write write) {
    elements(message, kFlows, all, write, [](const T& t) { return !is_v6(flow_in(t)); });
    elements(message, kFlowsV6, all, write, [](const T& t) { return is_v6(flow_in(t)); });
  }
  void flow_key(const ByQueuePair& flow) {
    batch_.open(NFTA_SET_ELEM_KEY);
    const auto value = [&](const auto& key) {
      batch_.attribute(NFTA_DATA_VALUE, key.data(), key.size());
    };
    if (is_v6(flow))
      value(key_of<FlowKeyBytesV6>(flow));
    else
      value(key_of<FlowKeyBytes>(flow));
    batch_.close();
  }
  void flow_and_mark(const MarkedFlow& marked) {
    flow_key(marked.flow);
    batch_.open(NFTA_SET_ELEM_DATA).number(NFTA_DATA_VALUE, marked.mark).close();
  }

 private:
  static const ByQueuePair& flow_in(const ByQueuePair& flow) { return flow; }
  static const ByQueuePair& flow_in(const MarkedFlow& marked) { return marked.flow; }

  template <class T, class Write, class Belongs>
  void elements(int message, const char* set, const std::vector<T>& all, Write write,
                Belongs belongs) {
    std::size_t written = 0;
    for (const T& each : all) {
      if (!belongs(each))
        continue;
      if (written % kElementsAtOnce == 0) {
        if (written != 0)
          batch_.close();
        begin(message, message == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0)
            .text(NFTA_SET_ELEM_LIST_SET, set)
            .open(NFTA_SET_ELEM_LIST_ELEMENTS);
      }
      batch_.open(NFTA_LIST_ELEM);
      write(each);
      batch_.close();
      ++written;
    }
    if (written != 0)
      batch_.close();
  }
  void port_key(const std::string& port) {
    PortKeyBytes key{};
    std::memcpy(key.data(), port.data(), std::min(port.size(), key.size() - 1));
    batch_.open(NFTA_SET_ELEM_KEY).attribute(NFTA_DATA_VALUE, key.data(), key.size()).close();
  }
  void make_map(const char* name, std::uint32_t address_type, std::uint32_t key_size,
                std::uint32_t id) {
    begin(NFT_MSG_NEWSET, NLM_F_CREATE | NLM_F_EXCL)
        .text(NFTA_SET_NAME, name)
        .network_number(NFTA_SET_FLAGS, NFT_SET_MAP)
        .network_number(NFTA_SET_KEY_TYPE, address_type << 12U | address_type << 6U | kTypeService)
        .network_number(NFTA_SET_KEY_LEN, key_size)
        .network_number(NFTA_SET_DATA_TYPE, kTypeMark)
        .network_number(NFTA_SET_DATA_LEN, sizeof(std::uint32_t))
        .network_number(NFTA_SET_ID, id)
        .attribute(NFTA_SET_USERDATA, kDataInOurOrder.data(), kDataInOurOrder.size());
  }
  void make_rule(std::uint8_t family) {
    const bool v6 = family == NFPROTO_IPV6;
    const std::uint32_t address = v6 ? 16 : 4;
    const std::uint32_t source = v6 ? kSourceAtV6 : kSourceAt;
    const std::uint16_t roce_port = htons(kRocePort);
    constexpr std::uint8_t kUdp = IPPROTO_UDP;
    begin(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND).text(NFTA_RULE_CHAIN, kChain);
    batch_.attribute(NFTA_RULE_USERDATA, kSignature.data(), kSignature.size())
        .open(NFTA_RULE_EXPRESSIONS);
    load_meta(NFT_META_NFPROTO);
    require(&family, sizeof family);
    load_meta(NFT_META_IIFNAME);
    look_up(kPorts, false);
    load_meta(NFT_META_L4PROTO);
    require(&kUdp, sizeof kUdp);
    load(NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, NFT_REG_1);
    require(&roce_port, sizeof roce_port);
    // One after another in registers of four octets, as in the map's key.
    load(NFT_PAYLOAD_NETWORK_HEADER, source, address, NFT_REG32_00);
    load(NFT_PAYLOAD_NETWORK_HEADER, source + address, address, NFT_REG32_00 + address / 4);
    load(NFT_PAYLOAD_TRANSPORT_HEADER, 0, 2, NFT_REG32_00 + address / 2);
    look_up(v6 ? kFlowsV6 : kFlows, true);
    expression("meta");
    batch_.network_number(NFTA_META_KEY, NFT_META_MARK)
        .network_number(NFTA_META_SREG, NFT_REG_1)
        .close()
        .close();
    batch_.close();
  }
  // Closed twice by the caller.
  void expression(const char* name) {
    batch_.open(NFTA_LIST_ELEM).text(NFTA_EXPR_NAME, name).open(NFTA_EXPR_DATA);
  }
  void load_meta(std::uint32_t key) {
    expression("meta");
    batch_.network_number(NFTA_META_KEY, key)
        .network_number(NFTA_META_DREG, NFT_REG_1)
        .close()
        .close();
  }
  void require(const void* value, std::size_t size) {
    expression("cmp");
    batch_.network_number(NFTA_CMP_SREG, NFT_REG_1)
        .network_number(NFTA_CMP_OP, NFT_CMP_EQ)
        .open(NFTA_CMP_DATA)
        .attribute(NFTA_DATA_VALUE, value, size)
        .close()
        .close()
        .close();
  }
  void load(std::uint32_t base, std::uint32_t offset, std::uint32_t length, std::uint32_t to) {
    expression("payload");
    batch_.network_number(NFTA_PAYLOAD_DREG, to)
        .network_number(NFTA_PAYLOAD_BASE, base)
        .network_number(NFTA_PAYLOAD_OFFSET, offset)
        .network_number(NFTA_PAYLOAD_LEN, length)
        .close()
        .close();
  }
  void look_up(const char* set, bool fetch) {
    expression("lookup");
    batch_.text(NFTA_LOOKUP_SET, set).network_number(NFTA_LOOKUP_SREG, NFT_REG_1);
    if (fetch)
      batch_.network_number(NFTA_LOOKUP_DREG, NFT_REG_1);
    batch_.close().close();
  }

  Batch& batch_;
  std::uint8_t family_;
  const std::string& table_;
};

}  // namespace

void append_marks(Batch& batch, const ChangeMarks& change, const std::string& table,
                  const SeenMarkTables& seen) {
  Writer w(batch, MarkFormat::present, table);
  const auto flow = [&](const ByQueuePair& f) { w.flow_key(f); };
  const auto marked_flow = [&](const MarkedFlow& m) { w.flow_key(m.flow); };
  const auto flow_and_mark = [&](const MarkedFlow& m) { w.flow_and_mark(m); };
  w.begin_transaction();
  // What goes with its table need not go by itself.
  if (!change.drop_table && !change.drop_former) {
    w.flows(NFT_MSG_DELSETELEM, change.off, flow);
    w.flows(NFT_MSG_DELSETELEM, change.moved, marked_flow);
    w.ports(NFT_MSG_DELSETELEM, change.ports_off);
  }
  if (change.drop_former)
    Writer(batch, MarkFormat::former, table).drop_table(seen.former.parts);
  if (change.drop_table)
    w.drop_table(seen.present.parts);
  if (change.make_table)
    w.make_table();
  w.ports(NFT_MSG_NEWSETELEM, change.ports_on);
  w.flows(NFT_MSG_NEWSETELEM, change.moved, flow_and_mark);
  w.flows(NFT_MSG_NEWSETELEM, change.on, flow_and_mark);
  w.end_transaction();
}

void append_mark_trial(Batch& batch, MarkTrial trial, const std::string& table) {
  Writer w(batch, MarkFormat::present, table);
  const std::string too_long(NFT_USERDATA_MAXLEN + 1, 'x');
  w.begin_transaction();
  switch (trial) {
    case MarkTrial::takes_tables: {
      const auto address = [](Family family, std::uint8_t last) {
        IpAddress result{.family = family, .octets = {}};
        result.octets[result.size() - 1] = last;
        return result;
      };
      std::vector<ByQueuePair> flows;
      for (const Family family : {Family::v4, Family::v6})
        flows.push_back(
            {.source = address(family, 1), .destination = address(family, 2), .source_port = 1});
      const auto key = [&](const ByQueuePair& f) { w.flow_key(f); };
      const auto element = [&](const ByQueuePair& f) { w.flow_and_mark({.flow = f, .mark = 1}); };
      w.make_table();
      w.ports(NFT_MSG_NEWSETELEM, {"lo"});
      w.flows(NFT_MSG_NEWSETELEM, flows, element);
      w.flows(NFT_MSG_DELSETELEM, flows, key);
      w.flows(NFT_MSG_NEWSETELEM, flows, element);
      break;
    }
    case MarkTrial::signs_tables:
      w.make_table(too_long);
      break;
    case MarkTrial::signs_chains:
      w.make_table(kSignature, too_long);
      break;
  }
  batch.acknowledge_last();
}

void append_mark_table_query(Batch& batch, MarkFormat format, const std::string& table) {
  Writer(batch, format, table).begin(NFT_MSG_GETTABLE, 0);
}

void append_mark_dump(Batch& batch, MarkFormat format, MarkDump what, const std::string& table) {
  Writer w(batch, format, table);
  switch (what) {
    case MarkDump::chains:
      // A dump of chains takes no table.
      batch.begin(type_of(NFT_MSG_GETCHAIN), NLM_F_DUMP, head_of(family_of(format)));
      break;
    case MarkDump::rules:
      w.begin(NFT_MSG_GETRULE, NLM_F_DUMP);
      break;
    case MarkDump::sets:
      w.begin(NFT_MSG_GETSET, NLM_F_DUMP);
      break;
    case MarkDump::ports:
      w.begin(NFT_MSG_GETSETELEM, NLM_F_DUMP).text(NFTA_SET_ELEM_LIST_SET, kPorts);
      break;
    case MarkDump::flows:
      w.begin(NFT_MSG_GETSETELEM, NLM_F_DUMP).text(NFTA_SET_ELEM_LIST_SET, kFlows);
      break;
    case MarkDump::flows_v6:
      w.begin(NFT_MSG_GETSETELEM, NLM_F_DUMP).text(NFTA_SET_ELEM_LIST_SET, kFlowsV6);
      break;
  }
}

}  // namespace heddle
