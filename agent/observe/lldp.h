// What `lldpcli -f json show neighbors` prints (lldpd), as neighbours. Its JSON has three shapes:
// one neighbour is an object, several are a list, and json0 is lists all the way down. Pure; any
// thread.
#pragma once

#include <string_view>
#include <vector>

#include "common/core/messages.h"
#include "common/core/result.h"

namespace heddle {

// Errc::parse if it is no such JSON. A neighbour without a port of ours that could exist is passed
// over; texts are cut to what LLDP allows and freed of control characters, because a neighbour may
// call itself anything. Sorted, none twice.
Result<std::vector<LldpNeighbour>> parse_lldp(std::string_view json);

}  // namespace heddle
