// The coordinator's JSON as tables for people: one pure function, so that every table is tested
// from recorded replies. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "common/core/result.h"

namespace heddle {

// `command` is what was asked ("plan show"); a reply to a command that has no table is shown as
// indented JSON. Errc::parse if the reply is not JSON.
Result<std::string> render(std::string_view command, std::string_view json, bool colour);

}  // namespace heddle
