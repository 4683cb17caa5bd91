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

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/netlink/batch.h"
#include "agent/program/route_kernel.h"

namespace heddle {

// What of a table is ours, as it was read: a table is dropped by dropping these, so that the kernel
// refuses where something else is in it.
struct MarkTableParts {
  bool chain{};
  std::vector<std::uint64_t> rules{};  // the kernel's handles
  std::vector<std::string> sets{};
};

// The whole change as one transaction.
void append_marks(Batch& batch, const ChangeMarks& change, const std::string& table,
                  const MarkTableParts& parts);
// Transactions that are never committed, to see what the kernel takes. `takes_tables`: such a table
// is made, filled and changed. The others, which it has to refuse: the comment of the table or of
// the chain is longer than one may be. A kernel that takes it does not look at it, and would not
// keep the signature by which we know what is ours.
enum class MarkTrial : std::uint8_t { takes_tables, signs_tables, signs_chains };
void append_mark_trial(Batch& batch, MarkTrial trial, const std::string& table);

void append_mark_table_query(Batch& batch, const std::string& table);
// Dumps of what is in the table. The kernel may answer with other tables' as well.
enum class MarkDump : std::uint8_t { chains, rules, sets, ports, flows };
inline constexpr std::size_t kMarkDumps = 5;
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
  const MarkTableParts& parts() const { return parts_; }
  // Before a dump is repeated.
  void forget(MarkDump what);
  KernelMarkTable finish() &&;

 private:
  void take_chain(const nlmsghdr& message);
  void take_rule(const nlmsghdr& message);
  void take_set(const nlmsghdr& message);
  void take_elements(const nlmsghdr& message);
  std::vector<std::string>& foreign(MarkDump where) {
    return foreign_[static_cast<std::size_t>(where)];
  }
  std::uint32_t& counted(MarkDump where) { return counted_[static_cast<std::size_t>(where)]; }

  std::string table_;
  bool table_seen_{};
  bool table_fits_{};
  bool chain_fits_{};
  bool ports_fit_{};
  bool flows_fit_{};
  std::uint32_t uses_{};                             // things in the table, as the kernel counts
  std::array<std::uint32_t, kMarkDumps> counted_{};  // of these, by where they were seen
  std::array<std::vector<std::string>, kMarkDumps> foreign_;  // likewise
  MarkTableParts parts_;
  KernelMarkTable result_;
};

}  // namespace heddle
