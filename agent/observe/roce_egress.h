/* What the kernel program (roce_egress.bpf.c) and its reader (tc_bpf_source.cpp) both know: the
 * map's key and value. C, because one of the two is. Host byte order except for the addresses. */
#pragma once

#include <linux/types.h>

enum { HEDDLE_ROCE_UDP_PORT = 4791, HEDDLE_FLOW_ENTRIES = 16384 };

/* A subflow where it leaves this node. IPv4 addresses occupy the first four octets; unused octets,
 * and `reserved`, are zero, because the whole key is hashed. */
struct heddle_flow_key {
  __u8 source[16];
  __u8 destination[16];
  __u32 ifindex;
  __u32 dest_qpn;
  __u16 source_port;
  __u8 ip_version; /* 4 or 6 */
  __u8 reserved[5];
};

/* A message's length counts for the interval in which the message began. Intervals alternate
 * between two slots, so that the reader can close one while packets go on filling the other. */
struct heddle_flow_value {
  __u64 bytes; /* on the wire, link-layer headers included */
  __u64 packets;
  __u64 first_seen_boot_ns;
  __u64 last_seen_boot_ns;
  __u32 interval[2];
  __u32 longest_message[2];
};
