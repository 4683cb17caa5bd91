#include "coordinator/import/waves_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(WavesFile, IsReadWithItsUsualSoak) {
  const auto waves = parse_waves(
      "soak_s: 3600\nwaves:\n  - {racks: [rack1], soak_s: 600}\n  - racks: [rack2, rack3]\n");
  ASSERT_TRUE(waves) << waves.error().front().message;
  EXPECT_EQ(*waves, (std::vector<WaveLine>{{{"rack1"}, 600}, {{"rack2", "rack3"}, 3600}}));
}

TEST(WavesFile, NamesEveryMistakeWithItsLine) {
  const auto waves = parse_waves(
      "soak: 1\n"
      "waves:\n"
      "  - {racks: [rack1], soak_s: soon}\n"
      "  - {racks: [rack1], soak_s: 5}\n"
      "  - {racks: [], soak_s: 5}\n"
      "  - {racks: [a b]}\n");
  ASSERT_FALSE(waves);
  const std::string all = describe("w.yaml", waves.error());
  for (const char* part :
       {"w.yaml:1: ", "unknown key 'soak'", "w.yaml:3: 'soak_s' is a whole number",
        "w.yaml:4: rack 'rack1' is in two waves", "w.yaml:5: a wave has at least one rack",
        "w.yaml:6: a rack of a wave: ", "w.yaml:6: a wave lacks 'soak_s'"})
    EXPECT_THAT(all, HasSubstr(part));
}

TEST(WavesFile, WithoutAWaveIsRefused) {
  for (const char* text : {"", "waves: []\n", "waves: none\n", "[]\n", "waves: [\n"})
    EXPECT_FALSE(parse_waves(text)) << text;
}

}  // namespace
}  // namespace heddle
