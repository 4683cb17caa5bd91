// Safety rule 10 for the wire: decode() takes any bytes. What it yields holds to the schema's
// promises, is written and read again as the same.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/core/check.h"
#include "common/wire/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto decoded = heddle::decode(std::as_bytes(std::span(data, size)));
  if (!decoded)
    return 0;
  if (const auto* snapshot = std::get_if<heddle::Snapshot>(&decoded->message)) {
    HEDDLE_CHECK(heddle::validate(snapshot->plan));
  }
  const auto again = heddle::decode(heddle::encode(*decoded));
  HEDDLE_CHECK(again && *again == *decoded);
  return 0;
}
