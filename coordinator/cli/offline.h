// The commands that need no coordinator: keygen and fabric check. Each reads or writes files, and
// says what it did in text or JSON. Any thread.
#pragma once

#include <iosfwd>
#include <string_view>

#include "coordinator/cli/command_line.h"

namespace heddle {

Exit make_keys(const Keygen& keygen, bool json, std::ostream& out, std::ostream& err);
Exit check_fabric(const FabricCheck& check, bool json, std::ostream& out, std::ostream& err);

// How every command reports an error: to `err`, and with --json as an object to `out`, so that a
// script that parses our output always has something to parse. Lines after the message's first are
// advice for people, and not in the object. Gives `exit` back.
Exit report_error(Exit exit, std::string_view message, bool json, std::ostream& out,
                  std::ostream& err);

}  // namespace heddle
