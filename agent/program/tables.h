// What of ours is in the kernel: reads it, says whose it is, and makes it what is wanted. It
// decides nothing about plans and time; the programmer does. One thread; kernel and store outlive
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/program/claims.h"
#include "agent/program/journal.h"
#include "agent/program/route_kernel.h"
#include "agent/program/summary.h"
#include "common/core/reconcile.h"
#include "common/core/result.h"

namespace heddle {

class Tables {
 public:
  Tables(RouteKernel& kernel, OwnershipStore& store, const RoutingRanges& configured);

  // Opens the record and goes by the protocol and ranges in it: what was installed under an earlier
  // configuration is ours under that one only.
  void open_record();
  // All of the kernel's routing; from it, what is installed and what is in conflict.
  Result<KernelState> read();
  // True if what is read back is what was wanted.
  bool converge(const SteeringTables& wanted);
  // Whether the protocol and ranges that are gone by are those of an earlier configuration.
  bool by_former_ranges() const { return ranges_ != configured_; }
  // Goes by the present ones as soon as nothing of the earlier ones is left; false while something
  // is. Nothing is programmed where nobody has looked, so everything has to be read after it, or it
  // is to be taken back.
  bool leave_former_ranges();
  void return_to(const RoutingRanges& ranges) { use(ranges); }

  // As last read back; `known` if it was not changed since.
  const SteeringTables& installed() const { return installed_; }
  bool known() const { return installed_known_; }
  const std::vector<PinRoute>& offloaded() const { return offloaded_; }
  const std::vector<PinRoute>& refused_by_hardware() const { return refused_by_hardware_; }
  // Whether an ASIC has taken the route, or has said that it will not.
  bool answered_by_hardware(const PinRoute& route) const;
  const RoutingRanges& ranges() const { return ranges_; }
  const Ownership& record() const { return journal_.record(); }
  // What forbids changing anything; empty if nothing does.
  const std::string& record_error() const { return journal_.error(); }
  const std::string& conflict() const { return conflict_; }
  // Of the last converge().
  const ChangeFailures& failures() const { return failures_; }

  // Something has changed that was not read yet.
  void doubt() { stale_ = true; }
  // This has: it may be ours, or lie where only ours may.
  void heard(const KernelRoute& route);
  void heard(const KernelNextHop& next_hop);
  void heard(const KernelRule& rule);
  bool stale() const { return stale_; }

  std::uint64_t reads() const { return reads_; }
  std::uint64_t changes() const { return changes_; }
  std::uint64_t repairs() const { return repairs_; }

 private:
  void use(const RoutingRanges& ranges);
  bool read_back();
  void adopt(Claims claims);
  bool apply(const std::vector<Action>& actions);
  void spare_what_others_use(std::vector<Action>& actions) const;

  RouteKernel& kernel_;
  Journal journal_;
  RoutingRanges configured_;
  RoutingRanges ranges_;  // the recorded ones while their pins are there

  SteeringTables installed_;
  bool installed_known_{};
  std::vector<PinRoute> offloaded_;
  std::vector<PinRoute> refused_by_hardware_;
  std::vector<std::uint32_t> lent_;  // as of the last full read: others' routes are not read back
  bool mark_table_lent_{};
  std::string conflict_;
  ChangeFailures failures_;
  bool stale_{};
  std::uint64_t reads_{};
  std::uint64_t changes_{};
  std::uint64_t repairs_{};
};

}  // namespace heddle
