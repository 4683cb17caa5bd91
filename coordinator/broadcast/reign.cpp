#include "coordinator/broadcast/reign.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

Result<Reign> Reign::begin(EpochStore& store) {
  const Result<std::uint64_t> stored = store.load_epoch();
  if (!stored)
    return tl::unexpected(stored.error());
  const std::uint64_t epoch = *stored + 1;
  if (const Result<void> written = store.store_epoch(epoch); !written)
    return tl::unexpected(written.error());
  return Reign(store, epoch);
}

std::optional<std::string> Reign::challenge(const std::string& agent, PlanVersion held,
                                            PlanVersion issued) {
  if (held.epoch < version_.epoch)
    return std::nullopt;
  if (held.epoch == version_.epoch) {
    // A node without a change keeps its version while ours goes on, so ours is no measure.
    if (held <= issued || held.generation == 0)
      return std::nullopt;
    return raise_above(
        held.epoch,
        fmt::format("agent {} holds plan {}, but this coordinator issued only up to {}, and {} to "
                    "it: another coordinator rules in epoch {}",
                    agent, to_string(held), to_string(version_), to_string(issued), held.epoch));
  }
  return raise_above(
      held.epoch, fmt::format("agent {} has seen plan {}, above this coordinator's epoch {}: the "
                              "epoch on disk was lost, or another coordinator rules",
                              agent, to_string(held), version_.epoch));
}

std::string Reign::contest(const std::string& agent, PlanVersion held) {
  return raise_above(
      std::max(held.epoch, version_.epoch),
      fmt::format(
          "agent {} installed other pins under plan {} than this coordinator issued: another "
          "coordinator rules in epoch {}",
          agent, to_string(held), held.epoch));
}

std::string Reign::raise_above(std::uint64_t epoch, std::string why) {
  version_ = {epoch + 1, 0};
  why += fmt::format("; this coordinator goes on in epoch {}", version_.epoch);
  if (const Result<void> written = store_->store_epoch(version_.epoch); !written)
    why += fmt::format(" (which could not be stored: {})", written.error().message);
  return why;
}

}  // namespace heddle
