// SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
/* Runs where the kernel's RDMA core changes a queue pair's state, and tells of each one that is
 * connected: to whom, with which flow label. That is nowhere to be asked for afterwards.
 *
 * A kprobe and not an fentry program: RDMA's core is a module on most machines, and the type
 * information of a module, which fentry needs from the kernel itself, is given to CAP_SYS_ADMIN
 * only. The agent reads the same information from /sys/kernel/btf and fills in where things are. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
/* Here, because it needs the two above. */
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "agent/observe/qp_connect.h"

/* enum ib_qp_state and enum ib_qp_attr_mask */
enum { READY_TO_RECEIVE = 2, HAS_STATE = 1 << 0, HAS_PATH = 1 << 7, HAS_REMOTE_QPN = 1 << 20 };

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 1 << 20);
} heddle_connections SEC(".maps");

const volatile struct heddle_qp_layout heddle_layout = {};

static __always_inline int fetch(void* to, __u32 size, const void* from, __u32 offset) {
  return bpf_probe_read_kernel(to, size, (const char*)from + offset) == 0;
}

SEC("kprobe")
int heddle_qp_connects(struct pt_regs* context) {
  const void* const qp = (const void*)PT_REGS_PARM1(context);
  const void* const attributes = (const void*)PT_REGS_PARM2(context);
  const int mask = (int)PT_REGS_PARM3(context);
  const int wanted = HAS_STATE | HAS_PATH | HAS_REMOTE_QPN;
  __u32 state = 0;
  if ((mask & wanted) != wanted || !fetch(&state, 4, attributes, heddle_layout.attr_state) ||
      state != READY_TO_RECEIVE)
    return 0;

  const void* device = 0;
  struct heddle_qp_connected* told = bpf_ringbuf_reserve(&heddle_connections, sizeof(*told), 0);
  if (!told)
    return 0;
  __u8 octet = 0;
  told->boot_ns = bpf_ktime_get_boot_ns();
  told->port = 0;
  int ok = fetch(&device, sizeof(device), qp, heddle_layout.qp_device) &&
           fetch(&told->device, 4, device, heddle_layout.device_index) &&
           fetch(&told->qpn, 4, qp, heddle_layout.qp_number) &&
           fetch(&told->remote_qpn, 4, attributes, heddle_layout.attr_remote_qpn) &&
           fetch(told->destination, 16, attributes, heddle_layout.attr_destination) &&
           fetch(&told->flow_label, 4, attributes, heddle_layout.attr_flow_label) &&
           fetch(&octet, 1, attributes, heddle_layout.attr_gid_index);
  told->gid_index = octet;
  if (heddle_layout.attr_port_octets == 4) {
    ok = ok && fetch(&told->port, 4, attributes, heddle_layout.attr_port);
  } else {
    ok = ok && fetch(&octet, 1, attributes, heddle_layout.attr_port);
    told->port = octet;
  }
  if (ok)
    bpf_ringbuf_submit(told, 0);
  else
    bpf_ringbuf_discard(told, 0);
  return 0;
}

/* For the helper that reads kernel memory. */
char LICENSE[] SEC("license") = "GPL";
