// The table of packet rules that marks flows, as netfilter's netlink messages:
//
//   table ip heddle-205 {
//     set ports { type ifname }
//     map flows { type ipv4_addr . ipv4_addr . inet_service : mark }
//     chain marking {
//       type filter hook prerouting priority mangle
//       iifname @ports udp dport 4791 meta mark set ip saddr . ip daddr . udp sport map @flows
//     }
//   }
//
// Only what comes in by a host's port is marked: a packet that a spine sends back must not go
// round. Table, chain and rule carry a signature as their comment; whoever changes one of them
// loses it. Pure; any thread.
#pragma once

#include <linux/netlink.h>

#include <optional>
#include <string>
#include <vector>

#include "agent/netlink/batch.h"
#include "agent/program/route_kernel.h"

namespace heddle {

// The whole change as one transaction.
void append_marks(Batch& batch, const ChangeMarks& change, const std::string& table);
// A transaction that makes such a table, as far as the kernel checks it, and is never committed.
void append_mark_trial(Batch& batch, const std::string& table);

void append_mark_table_query(Batch& batch, const std::string& table);
// Dumps of what is in the table. The kernel may answer with other tables' as well.
enum class MarkDump : std::uint8_t { chains, rules, sets, ports, flows };
void append_mark_dump(Batch& batch, MarkDump what, const std::string& table);

// Whether a message, or a notification, is about that table.
bool concerns_table(const nlmsghdr& message, const std::string& table);

// Puts the answers to the query and to the dumps together. One table; take() everything, then
// finish().
class MarkTableReading {
 public:
  explicit MarkTableReading(std::string table) : table_(std::move(table)) {}
  bool there() const { return table_seen_; }
  bool has_ports() const { return ports_fit_; }
  bool has_flows() const { return flows_fit_; }
  void take(const nlmsghdr& message);
  // Before a dump is repeated.
  void forget(MarkDump what);
  KernelMarkTable finish() &&;

 private:
  void take_chain(const nlmsghdr& message);
  void take_rule(const nlmsghdr& message);
  void take_set(const nlmsghdr& message);
  void take_elements(const nlmsghdr& message);

  std::string table_;
  bool table_seen_{};
  bool table_fits_{};
  bool chain_fits_{};
  bool ports_fit_{};
  bool flows_fit_{};
  int rules_{};  // ours
  std::vector<std::string> foreign_chains_;
  std::vector<std::string> foreign_rules_;
  std::vector<std::string> foreign_sets_;
  KernelMarkTable result_;
};

}  // namespace heddle
