// Counts RoCEv2 packets per subflow where they leave this node, at a clsact egress hook, bare or as
// a host wraps them for segment routing. It never drops, changes or classifies a packet: its
// verdict is always "ask the next filter".
//
// It sees what the kernel forwards or sends over an Ethernet device. RDMA done by hardware never
// passes here.

#include "agent/observe/roce_egress.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/pkt_cls.h>

// Least recently used: a burst of short-lived queue pairs must not keep new elephants from being
// seen.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, HEDDLE_FLOW_ENTRIES);
  __type(key, struct heddle_flow_key);
  __type(value, struct heddle_flow_value);
} heddle_flows SEC(".maps");

// Written by the reader: the number of the interval that is now open, from 1.
volatile __u32 heddle_interval = 1;
// Entries made, and packets for which none could be made. Entries made minus entries found is what
// the kernel evicted.
__u64 heddle_created = 0;
__u64 heddle_unrecorded = 0;

enum { IPV4_HEADER = 20, IPV6_HEADER = 40, NEXT_HEADER = 6, UDP_AND_BTH = 20 };
enum { SEGMENT_ROUTING = 4 }; /* a type of routing header */

// Only as far as this program looks: UDP and the base transport header.
struct udp_bth {
  __be16 source;
  __be16 destination;
  __be16 length;
  __be16 checksum;
  __u8 opcode;
  __u8 flags; /* the low four bits are the header's version: 0 */
  __be16 partition;
  __be32 dest_qpn; /* the high eight bits are reserved */
  __be32 sequence;
};

// `offset` counts from the IP header. This call also reads what lies in fragments, where
// segmentation offload and many drivers put everything behind the UDP header.
static __always_inline int load(const struct __sk_buff* skb, __u32 offset, void* to, __u32 length) {
  return bpf_skb_load_bytes(skb, ETH_HLEN + offset, to, length);
}

// Operations whose first packet announces, in a RETH, how many bytes the whole message will carry
// this way. A READ REQUEST has a RETH too, but its data come from the other side.
static __always_inline int announces_length(__u8 opcode) {
  __u8 operation = opcode & 0x1f;
  __u8 transport = opcode >> 5;
  if (transport > 1)  // neither reliable (0) nor unreliable (1) connection
    return 0;
  return operation == 0x06 || operation == 0x0a ||
         operation == 0x0b;  // WRITE first, only, only immediate
}

// What a host that steers by segment routing has wrapped around a packet: an IPv6 header and,
// unless the last segment was taken off, a list of segments (RFC 8754). Where the packet inside
// begins and of which IP version it is. Packets without a wrapping begin where they do.
struct inner {
  __u32 offset;
  __u32 version; /* 0: nothing that is looked for */
};

static __always_inline struct inner unwrap(const struct __sk_buff* skb) {
  struct inner found = {};
  __u8 list[4] = {}; /* next header, length, type, segments left */
  __u8 next;

  if (skb->protocol == bpf_htons(ETH_P_IP)) {
    found.version = 4;
    return found;
  }
  if (skb->protocol != bpf_htons(ETH_P_IPV6) || load(skb, NEXT_HEADER, &next, 1) < 0)
    return found;
  found.version = 6;
  if (next == IPPROTO_UDP)
    return found;
  found.offset = IPV6_HEADER;
  if (next == IPPROTO_ROUTING) {
    if (load(skb, IPV6_HEADER, list, sizeof(list)) < 0 || list[2] != SEGMENT_ROUTING)
      next = IPPROTO_NONE;
    else
      next = list[0];
    found.offset += 8 + 8 * (__u32)list[1];
  }
  found.version = next == IPPROTO_IPIP ? 4 : next == IPPROTO_IPV6 ? 6 : 0;
  return found;
}

SEC("tc")
int heddle_egress(struct __sk_buff* skb) {
  struct heddle_flow_key key = {};
  __u8 ip[IPV6_HEADER];
  struct inner packet = unwrap(skb);
  __u32 transport = packet.offset;

  if (packet.version == 4) {
    if (load(skb, packet.offset, ip, IPV4_HEADER) < 0 || ip[0] >> 4 != 4 || ip[9] != IPPROTO_UDP)
      return TC_ACT_UNSPEC;
    if ((ip[6] & 0x1f) != 0 || ip[7] != 0)  // a later fragment carries no headers
      return TC_ACT_UNSPEC;
    transport += (ip[0] & 0x0f) * 4;
    key.ip_version = 4;
    __builtin_memcpy(key.source, ip + 12, 4);
    __builtin_memcpy(key.destination, ip + 16, 4);
  } else if (packet.version == 6) {
    // RoCEv2 itself has no use for extension headers.
    if (load(skb, packet.offset, ip, IPV6_HEADER) < 0 || ip[0] >> 4 != 6 ||
        ip[NEXT_HEADER] != IPPROTO_UDP)
      return TC_ACT_UNSPEC;
    transport += IPV6_HEADER;
    key.ip_version = 6;
    __builtin_memcpy(key.source, ip + 8, 16);
    __builtin_memcpy(key.destination, ip + 24, 16);
  } else {
    return TC_ACT_UNSPEC;
  }

  struct udp_bth headers;
  if (load(skb, transport, &headers, UDP_AND_BTH) < 0)
    return TC_ACT_UNSPEC;
  if (headers.destination != bpf_htons(HEDDLE_ROCE_UDP_PORT) || (headers.flags & 0x0f) != 0)
    return TC_ACT_UNSPEC;
  key.ifindex = skb->ifindex;
  key.source_port = bpf_ntohs(headers.source);
  key.dest_qpn = bpf_ntohl(headers.dest_qpn) & 0xffffff;

  __u64 now = bpf_ktime_get_boot_ns();
  struct heddle_flow_value* value = bpf_map_lookup_elem(&heddle_flows, &key);
  if (!value) {
    struct heddle_flow_value fresh = {.first_seen_boot_ns = now};
    if (bpf_map_update_elem(&heddle_flows, &key, &fresh, BPF_NOEXIST) == 0)
      __sync_fetch_and_add(&heddle_created, 1);
    value = bpf_map_lookup_elem(&heddle_flows, &key);
    if (!value) {
      __sync_fetch_and_add(&heddle_unrecorded, 1);
      return TC_ACT_UNSPEC;
    }
  }

  // wire_len and gso_segs see through segmentation offload: one buffer may become many packets.
  __sync_fetch_and_add(&value->bytes, skb->wire_len);
  __sync_fetch_and_add(&value->packets, skb->gso_segs > 1 ? skb->gso_segs : 1);
  value->last_seen_boot_ns = now;

  if (announces_length(headers.opcode)) {
    // RETH: virtual address 8, key 4, then the length.
    __be32 length_field;
    if (load(skb, transport + UDP_AND_BTH + 12, &length_field, sizeof(length_field)) == 0) {
      __u32 length = bpf_ntohl(length_field);
      __u32 interval = heddle_interval;
      __u32 slot = interval & 1;
      // Two processors may race here for one flow; the worse outcome is that one message's length
      // is missed, and the length is a hint.
      if (value->interval[slot] != interval) {
        value->interval[slot] = interval;
        value->longest_message[slot] = length;
      } else if (length > value->longest_message[slot]) {
        value->longest_message[slot] = length;
      }
    }
  }
  return TC_ACT_UNSPEC;
}

char heddle_license[] SEC("license") = "Apache-2.0";
