// Whatever stands in the file of neighbours, and whatever neighbours call themselves, is refused or
// becomes a message that its receiver takes (safety rule 10).
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "agent/observe/lldp.h"
#include "common/core/check.h"
#include "common/wire/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heddle;
  const auto neighbours = parse_lldp({reinterpret_cast<const char*>(data), size});
  if (!neighbours)
    return 0;
  const Envelope told{"leaf1", 1,
                      LinkChange{.ports = {}, .withdrawn = {}, .neighbours = *neighbours}};
  const auto heard = decode(encode(told));
  HEDDLE_CHECK(heard && *heard == told);
  return 0;
}
