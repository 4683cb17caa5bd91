#include "common/core/flow.h"

#include <fmt/format.h>

namespace heddle {

std::string to_string(const WireKey& key) {
  return fmt::format("{}:{} > {} qp {:#x}", to_string(key.source), key.source_port,
                     to_string(key.destination), key.dest_qpn);
}

}  // namespace heddle
