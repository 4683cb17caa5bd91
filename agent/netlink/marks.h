// The table of packet rules that marks flows, as netfilter's netlink messages:
//
//   table inet heddle-205 {
//     set ports { type ifname }
//     map flows { type ipv4_addr . ipv4_addr . inet_service : mark }
//     map flows6 { type ipv6_addr . ipv6_addr . inet_service : mark }
//     chain marking {
//       type filter hook prerouting priority mangle
//       iifname @ports udp dport 4791 meta mark set ip saddr . ip daddr . udp sport map @flows
//       iifname @ports udp dport 4791 meta mark set ip6 saddr . ip6 daddr . udp sport map @flows6
//     }
//   }
//
// Only what comes in by a host's port is marked: a packet that a spine sends back must not go
// round. Table, chain and rules carry a signature as their comment; whoever changes one of them
// loses it. An earlier version's table is read as well, to be removed: family ip, without flows6,
// with one rule and another signature. Pure; any thread.
#pragma once

#include <linux/netlink.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/netlink/batch.h"
#include "agent/program/route_kernel.h"

namespace heddle {

enum class MarkFormat : std::uint8_t { present, former };

// What of a table is ours, as it was read: a table is dropped by dropping these, so that the kernel
// refuses where something else is in it.
struct MarkTableParts {
  bool chain{};
  std::vector<std::uint64_t> rules{};  // the kernel's handles
  std::vector<std::string> sets{};
};

// A table as it was last read; the present one and an earlier version's.
struct SeenMarkTable {
  std::optional<KernelMarkTable> table{};
  MarkTableParts parts{};
};
struct SeenMarkTables {
  SeenMarkTable present{};
  SeenMarkTable former{};
  SeenMarkTable& of(MarkFormat format) { return format == MarkFormat::present ? present : former; }
};

// The whole change as one transaction.
void append_marks(Batch& batch, const ChangeMarks& change, const std::string& table,
                  const SeenMarkTables& seen);
// Transactions that are never committed, to see what the kernel takes. `takes_tables`: such a table
// is made, filled and changed. The others, which it has to refuse: the comment of the table or of
// the chain is longer than one may be. A kernel that takes it does not look at it, and would not
// keep the signature by which we know what is ours.
enum class MarkTrial : std::uint8_t { takes_tables, signs_tables, signs_chains };
void append_mark_trial(Batch& batch, MarkTrial trial, const std::string& table);

void append_mark_table_query(Batch& batch, MarkFormat format, const std::string& table);
// Dumps of what is in the table. The kernel may answer with other tables' as well.
enum class MarkDump : std::uint8_t { chains, rules, sets, ports, flows, flows_v6 };
inline constexpr std::size_t kMarkDumps = 6;
void append_mark_dump(Batch& batch, MarkFormat format, MarkDump what, const std::string& table);

// Whether a message, or a notification, is about that table.
bool concerns_table(const nlmsghdr& message, MarkFormat format, const std::string& table);

// Puts the answers to the query and to the dumps together. One table; take() everything, then
// finish().
class MarkTableReading {
 public:
  MarkTableReading(MarkFormat format, std::string table)
      : format_(format), table_(std::move(table)) {}
  bool there() const { return table_seen_; }
  // Whether there is such a set, of such a kind, that its elements can be asked for.
  bool has(MarkDump elements) const;
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

  MarkFormat format_;
  std::string table_;
  bool table_seen_{};
  bool table_fits_{};
  bool chain_fits_{};
  std::uint32_t uses_{};                             // things in the table, as the kernel counts
  std::array<std::uint32_t, kMarkDumps> counted_{};  // of these, by where they were seen
  std::array<std::vector<std::string>, kMarkDumps> foreign_;  // likewise
  MarkTableParts parts_;
  KernelMarkTable result_;
};

}  // namespace heddle
