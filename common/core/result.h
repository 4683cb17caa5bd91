// Operating errors as values: Result<T> is a T or an Error that says what was wrong and with what.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace heddle {

enum class Errc : std::uint8_t {
  invalid_argument,  // the caller's or operator's input is wrong
  parse,             // bytes or text from outside do not have the form they should have
  not_found,
  duplicate,
  stale_plan,     // a plan older than the one that is installed (safety rule 4)
  wrong_node,     // a plan for somebody else
  gap,            // a diff whose base is not what we hold: ask for a snapshot
  foreign_state,  // something in our ranges is not ours (safety rule 1)
  kernel,         // the kernel refused; the message carries its reason
  io,
  timeout,
  permission,
  unsupported,
  unobservable,  // cannot be seen from here, which is not the same as zero (safety rule 7)
};

struct Error {
  Errc code{};
  std::string message;
  bool operator==(const Error&) const = default;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Errc code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

// The name of a code as logs and JSON show it.
constexpr const char* to_string(Errc code) {
  switch (code) {
    case Errc::invalid_argument:
      return "invalid-argument";
    case Errc::parse:
      return "parse";
    case Errc::not_found:
      return "not-found";
    case Errc::duplicate:
      return "duplicate";
    case Errc::stale_plan:
      return "stale-plan";
    case Errc::wrong_node:
      return "wrong-node";
    case Errc::gap:
      return "gap";
    case Errc::foreign_state:
      return "foreign-state";
    case Errc::kernel:
      return "kernel";
    case Errc::io:
      return "io";
    case Errc::timeout:
      return "timeout";
    case Errc::permission:
      return "permission";
    case Errc::unsupported:
      return "unsupported";
    case Errc::unobservable:
      return "unobservable";
  }
  return "unknown";
}

}  // namespace heddle
