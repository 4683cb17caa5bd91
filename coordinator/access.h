// Who may give which command, and the audit of it.
//
// Thread: the event loop's. Lifetime: the coordinator's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/core/clock.h"
#include "common/core/messages.h"
#include "coordinator/broadcast/broadcast.h"
#include "coordinator/serve/audit.h"

namespace heddle {

// Whether a command changes nothing, so that a viewer may give it. What is not known here changes
// something: a new command is an operator's until somebody decides otherwise.
bool only_asks(const std::string& command);

class Access {
 public:
  Access(AuditLog& log, const Clock& clock) : log_(log), clock_(clock) {}

  // What a sender may do: what its key's folder says, and by the layout of earlier versions an
  // operator's, unless its key is a node's. Without keys everybody is an operator.
  static KeyRole role_of(const Sender& sender, bool is_node);
  struct Refusal {
    std::string why;
    bool is_news{};  // it is in the log now; what is repeated is not, nor worth a word elsewhere
  };
  // Nothing if the request is not refused.
  std::optional<Refusal> refuse(const Sender& sender, bool is_node, const Request& request);

  // An order that its sender may give. `settled` tells what came of it, by the reply's route and
  // number.
  void ordered(const Sender& sender, bool is_node, const Request& request);
  void settled(const std::string& route, const Reply& reply);
  // The answer comes later: what was ordered is on record before.
  void waits(const std::string& route, std::uint64_t id);

  // An agent, or somebody without a known key, that was turned away.
  void turned_away(std::string key, KeyRole role, std::string command, std::string argument,
                   const std::string& why);
  // The folder of keys changed.
  void keys_changed(std::string key, KeyRole role, std::string what);

 private:
  bool keep_refusal(AuditRecord record);

  AuditLog& log_;
  const Clock& clock_;
  std::map<std::pair<std::string, std::uint64_t>, AuditRecord> open_;  // by route and number
  // A refusal is written once in ten minutes, and at most so many of them in a minute, so that
  // nobody who may do nothing can push the orders out of the log.
  std::map<std::string, Time> refused_;
  Time minute_{};
  std::uint32_t in_minute_{};
};

}  // namespace heddle
