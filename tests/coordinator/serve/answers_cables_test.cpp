// The sentences and the JSON of each way in which a cable may lie.
#include "coordinator/serve/answers_cables.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace heddle {
namespace {

using nlohmann::json;

const CableEnd kUp1{"leaf1", "up1"}, kUp2{"leaf1", "up2"}, kD1{"spine1", "d1"}, kD2{"spine2", "d1"};

CableDifference difference(CableFault fault, CableEnd expected, CableEnd found) {
  CableDifference one;
  one.fault = fault;
  one.at = kUp1;
  one.expected = std::move(expected);
  one.found = std::move(found);
  return one;
}

TEST(CableSentences, SayWhatIsWrongAndWhatShouldBe) {
  CableDifference missing = difference(CableFault::missing, kD1, {});
  EXPECT_EQ(to_string(missing), "leaf1 up1 should lead to spine1 d1, but hears nobody");
  missing.no_carrier = true;
  EXPECT_EQ(to_string(missing), "leaf1 up1 should lead to spine1 d1, but has no carrier");
  EXPECT_EQ(to_string(difference(CableFault::missing, kD1, {"", "00:1c:73:00:00:01"})),
            "leaf1 up1 should lead to spine1 d1, but leads to a nameless device "
            "00:1c:73:00:00:01");
  EXPECT_EQ(to_string(difference(CableFault::extra, {}, kD1)),
            "leaf1 up1 leads to spine1 d1, which is no cable of the file");
  CableDifference swapped = difference(CableFault::swapped, kD1, kD2);
  swapped.other = kUp2;
  EXPECT_EQ(to_string(swapped),
            "leaf1 up1 and leaf1 up2 are swapped: leaf1 up1 leads to spine2 d1 and should lead to "
            "spine1 d1");
  CableDifference slow = difference(CableFault::speed, kD1, {});
  slow.expected_speed = Rate{400e9};
  slow.found_speed = Rate{25e9};
  EXPECT_EQ(to_string(slow), "leaf1 up1 runs at 25 Gbit/s, and by the file at 400 Gbit/s");
}

TEST(CableAnswer, IsNullWhereThereIsNothing) {
  CableCheck check;
  check.expected = 3;
  check.verified = 1;
  check.unverified = {{kUp2, kD2}};
  check.differences = {difference(CableFault::missing, kD1, {})};
  check.parallel = {{"leaf1", "spine1", 2, 1}};
  const std::vector<SilentNode> silent{{"spine2", "no agent runs there"}};
  const json answer = json::parse(cables_json(check, "lab", silent));
  EXPECT_EQ(answer["fabric"], "lab");
  EXPECT_EQ(answer["cables"], json::parse(R"({"expected":3,"verified":1,"unverified":1})"));
  const json& one = answer["differences"].at(0);
  EXPECT_EQ(one["kind"], "missing");
  EXPECT_EQ(one["expected"], json::parse(R"({"node":"spine1","port":"d1"})"));
  for (const char* const key : {"found", "swapped_with", "expected_bps", "found_bps"})
    EXPECT_TRUE(one.at(key).is_null()) << key;
  EXPECT_EQ(answer["parallel"].at(0)["found"], 1);
  EXPECT_EQ(answer["unverified"].at(0)["a"]["port"], "up2");
  EXPECT_EQ(answer["silent"].at(0)["reason"], "no agent runs there");
}

}  // namespace
}  // namespace heddle
