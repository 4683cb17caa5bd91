// Whatever an operator, or a broken disk, writes into a fabric or job file, it is read or refused
// (safety rule 10).
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "coordinator/import/fabric_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto topology = heddle::parse_fabric(text);
  if (!topology) {
    (void)heddle::describe("fuzz", topology.error());
    // Most inputs are no fabric; the job file's reader must be reached all the same.
    static const heddle::Topology none =
        *heddle::parse_fabric("fabric: f\nleaves: []\nspines: []\ncables: []\nhosts: []\n");
    (void)heddle::parse_jobs(text, none);
  }
  return 0;
}
