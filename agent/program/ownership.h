// The record of what this node's agent has installed or is about to: the third witness of safety
// rule 1, beside the protocol number and the ranges. It is written before the kernel is changed, so
// that after a crash at any instruction it names at least what is installed. It also says under
// which protocol and ranges that was done, so that a configuration that has changed since, or that
// cannot be read (recorded_ranges), does not orphan anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/program/route_kernel.h"
#include "common/core/address.h"
#include "common/core/reconcile.h"
#include "common/core/result.h"

namespace heddle {

struct Ownership {
  std::optional<RoutingRanges> ranges{};   // none in a record of the first format
  std::vector<std::uint32_t> next_hops{};  // sorted
  std::vector<TableRule> rules{};          // sorted
  std::vector<std::pair<std::uint32_t, IpAddress>> routes{};  // table, destination; sorted
  bool mark_table{};
  std::vector<std::string> mark_ports{};  // sorted
  std::vector<ByQueuePair> marks{};       // sorted

  static Ownership of(const SteeringTables& tables, const RoutingRanges& ranges);
  bool empty() const { return next_hops.empty() && rules.empty() && routes.empty() && !mark_table; }
  bool covers(const Ownership& other) const;
  Ownership merged(const Ownership& other) const;
  bool owns_next_hop(std::uint32_t id) const;
  bool owns_rule(const TableRule& rule) const;
  bool owns_route(std::uint32_t table, const IpAddress& destination) const;
  bool owns_mark_port(const std::string& port) const;
  bool owns_mark(const ByQueuePair& flow) const;
  bool operator==(const Ownership&) const = default;
};

class OwnershipStore {
 public:
  virtual ~OwnershipStore() = default;
  // Empty if nothing was ever recorded in this boot. Errc::parse if the record is damaged,
  // Errc::io.
  virtual Result<Ownership> load() = 0;
  virtual Result<void> save(const Ownership& ownership) = 0;
};

// STATE_DIR/installed: one small text file, replaced by rename. A record of an earlier boot is
// void: the tables that it speaks of are gone, and whatever is there now is somebody else's.
class OwnershipFile final : public OwnershipStore {
 public:
  OwnershipFile(const std::string& state_dir, std::string boot_id);
  Result<Ownership> load() override;
  Result<void> save(const Ownership& ownership) override;

 private:
  std::string path_;
  std::string boot_id_;
};

// Under which protocol and ranges this boot's record in `state_dir` was written: all that guard,
// flush and disable need to know when the configuration cannot be read. The defaults where the
// record does not say (nothing is installed, or the first format). Errc::parse, Errc::io.
Result<RoutingRanges> recorded_ranges(const std::string& state_dir, const std::string& boot_id);

}  // namespace heddle
