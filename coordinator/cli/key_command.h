// `heddle key`: who may connect to a coordinator, and what they may do. It works on the folder of
// authorised keys, so it is run where the coordinator runs, by who may write there; the coordinator
// notices the change by itself. One thread.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "common/core/access.h"
#include "coordinator/cli/command_line.h"

namespace heddle {

Exit add_key(const KeyAdd& add, bool json, std::ostream& out, std::ostream& err);
Exit list_keys(const KeyList& list, bool json, bool colour, std::ostream& out, std::ostream& err);
Exit revoke_key(const KeyRevoke& revoke, bool json, std::ostream& out, std::ostream& err);

}  // namespace heddle
