#include "agent/program/journal.h"

#include <utility>

namespace heddle {

void Journal::open() {
  if (opened_ && error_.empty())
    return;
  opened_ = true;
  auto record = store_.load();
  error_ = record ? std::string{} : record.error().message;
  record_ = record ? std::move(*record) : Ownership{};
}

Result<void> Journal::widen(const Ownership& needed) {
  if (record_.covers(needed) && !suspect_)
    return {};
  return save(record_.merged(needed));
}

void Journal::narrow(const Ownership& present) {
  if (error_.empty() && (present != record_ || suspect_))
    (void)save(present);
}

Result<void> Journal::save(Ownership next) {
  if (auto saved = store_.save(next); !saved)
    return saved;
  record_ = std::move(next);
  suspect_ = false;
  return {};
}

}  // namespace heddle
