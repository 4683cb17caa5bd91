// Keeps the record of what is installed at least as wide as the truth, by writing it first and
// narrowing it last. One thread; the store outlives it.
#pragma once

#include <string>

#include "agent/program/ownership.h"
#include "common/core/result.h"

namespace heddle {

class Journal {
 public:
  explicit Journal(OwnershipStore& store) : store_(store) {}

  // From the store, once; again only if that failed, as nobody else extends it.
  void open();
  const Ownership& record() const { return record_; }
  // Why nothing can be said to be ours; empty if something can.
  const std::string& error() const { return error_; }

  // Before a change: the record names `needed`, too, or the change must not be made.
  Result<void> widen(const Ownership& needed);
  // After it: the record names only what is there. If that fails it names more, which is harmless,
  // and is tried again after the next change.
  void narrow(const Ownership& present);

  // A damaged record says nothing of a kernel in which there is nothing to say anything of.
  void nothing_is_there() { error_.clear(); }
  // Somebody else may have flushed, and that empties the record in the store.
  void suspect() { suspect_ = true; }
  bool suspected() const { return suspect_; }

 private:
  Result<void> save(Ownership next);

  OwnershipStore& store_;
  Ownership record_;
  std::string error_;
  bool opened_{};
  bool suspect_{};
};

}  // namespace heddle
