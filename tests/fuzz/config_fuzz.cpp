// Safety rule 10 for configuration: any text is read or refused, by every kind of reader, with
// messages made.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/core/check.h"
#include "common/runtime/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heddle;
  using namespace std::chrono_literals;
  auto reader = ConfigReader::parse({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!reader) {
    HEDDLE_CHECK(reader.error().message.starts_with("fuzz.yaml:"));
    return 0;
  }
  std::string text;
  std::vector<std::string> texts;
  bool flag = false;
  std::uint32_t number = 1;
  double part = 0.5;
  Duration lease = 1s;
  int choice = 0;
  reader->read("node", text, Need::required);
  reader->read("uplinks", texts);
  reader->read("flag", flag);
  reader->read("number", number, {.min = 1, .max = 10});
  reader->read("part", part, {.min = 0, .max = 1});
  reader->read_duration("lease_s", lease, 1s, {1s, 24h});
  reader->read_choice("mode", choice, {{"observe", 1}, {"program", 2}});
  ConfigReader section = reader->section("routing");
  section.read("protocol", number, {.min = 1, .max = 10});
  for (ConfigReader& item : reader->list("jobs"))
    item.read("name", text);
  const auto finished = reader->finish();
  HEDDLE_CHECK(number >= 1 && number <= 10);
  HEDDLE_CHECK(part >= 0 && part <= 1);
  HEDDLE_CHECK(lease >= 1s && lease <= 24h);
  if (!finished)
    HEDDLE_CHECK(finished.error().message.starts_with("fuzz.yaml:"));
  return 0;
}
