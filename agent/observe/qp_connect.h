/* What the kernel program (qp_connect.bpf.c) and its reader (kprobe_watch.cpp) both know. C,
 * because one of the two is. Host byte order except for the address. */
#pragma once

#include <linux/types.h>

/* A queue pair on its way to Ready To Receive: from here on it has a peer. */
struct heddle_qp_connected {
  __u64 boot_ns;
  __u8 destination[16]; /* the peer's GID */
  __u32 device;         /* index of the RDMA device */
  __u32 qpn;
  __u32 remote_qpn;
  __u32 flow_label;
  __u32 port;
  __u32 gid_index; /* of the sender's own address */
};

/* Where the kernel keeps these things, in octets from the beginning of its structures. */
struct heddle_qp_layout {
  __u32 qp_device;
  __u32 qp_number;
  __u32 device_index;
  __u32 attr_state;
  __u32 attr_remote_qpn;
  __u32 attr_destination;
  __u32 attr_flow_label;
  __u32 attr_gid_index; /* one octet */
  __u32 attr_port;
  __u32 attr_port_octets; /* 1 or 4 */
};
