// What the answers to commands share: exit codes and replies. Include only from the requests_*.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "common/core/messages.h"
#include "common/core/result.h"
#include "coordinator/broadcast/broadcast.h"

namespace heddle {

// As in heddle(1); 3 is the command line's own, for no coordinator.
enum AnswerCode : std::uint8_t { ok = 0, refused = 1, usage = 2, not_found = 4 };

inline Reply good(std::string json) {
  return {.id = 0, .exit_code = AnswerCode::ok, .json = std::move(json), .error = {}};
}
inline Reply bad(AnswerCode code, std::string error) {
  return {.id = 0, .exit_code = code, .json = {}, .error = std::move(error)};
}
inline Reply bad(const Error& error) {
  return bad(error.code == Errc::not_found          ? AnswerCode::not_found
             : error.code == Errc::invalid_argument ? AnswerCode::usage
                                                    : AnswerCode::refused,
             error.message);
}

// By its key, as the name is what a client calls itself.
inline const std::string& who(const Sender& sender) {
  return sender.key_name.empty() ? sender.node : sender.key_name;
}

}  // namespace heddle
