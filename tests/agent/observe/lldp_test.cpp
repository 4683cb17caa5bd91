// The JSON of real lldpds (1.0.16; lldp/ beside this file, and other people's in HEDDLE_DATA), and
// what no lldpd prints.
#include "agent/observe/lldp.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/observe/lldp_file.h"
#include "tests/tree.h"

namespace heddle {
namespace {

using Neighbours = std::vector<LldpNeighbour>;

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in) << file;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

Neighbours recorded(const std::string& name) {
  const auto parsed = parse_lldp(read_file(std::filesystem::path(HEDDLE_SOURCE_DIR) /
                                           "tests/agent/observe/lldp" / (name + ".json")));
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed.value_or(Neighbours{});
}

const LldpNeighbour kFirst{"up1", "sl2.fabric", "b2:60:92:de:ee:08", "d1"};

TEST(Lldp, OneNeighbourIsAnObjectAndSeveralAreAList) {
  EXPECT_EQ(recorded("one-cable"), Neighbours{kFirst});
  const Neighbours two = recorded("two-cables");
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0], kFirst);
  EXPECT_EQ(two[1].port, "up2");
  EXPECT_EQ(two[1].node, "sl2.fabric");
  EXPECT_EQ(two[1].node_port_description, "d2");
  EXPECT_EQ(recorded("two-cables-json0"), two) << "the same in lists all the way down";
}

TEST(Lldp, NobodyIsKnownToBeNobody) {
  EXPECT_EQ(recorded("none"), Neighbours{});
  EXPECT_EQ(recorded("none-json0"), Neighbours{});
}

TEST(Lldp, OtherPeoplesRecordingsAreRead) {
  const char* const data = std::getenv("HEDDLE_DATA");
  if (data == nullptr || !std::filesystem::exists(std::filesystem::path(data) / "local-capture"))
    GTEST_SKIP() << "HEDDLE_DATA names no folder with local-capture";
  const std::filesystem::path folder = std::filesystem::path(data) / "local-capture";
  const Neighbours leaf{{"swp1", "sp1.fabric.example", "swp1", "swp1"},
                        {"swp2", "sp2.fabric.example", "swp1", "swp1"}};
  EXPECT_EQ(parse_lldp(read_file(folder / "lldpcli-neighbors-leaf1.json")), leaf);
  EXPECT_EQ(parse_lldp(read_file(folder / "lldpcli-neighbors-leaf1-json0.json")), leaf);
  EXPECT_EQ(parse_lldp(read_file(folder / "lldpcli-neighbors-sp1.json")),
            (Neighbours{{"swp1", "leaf1.fabric.example", "swp1", "swp1"}}));
}

// Written after lldpcli's source: a neighbour that tells no name, a port with two neighbours.
TEST(Lldp, ANeighbourMayHaveNoNameAndAPortMayHaveTwo) {
  EXPECT_EQ(parse_lldp(R"({"lldp":{"interface":{"up1":{"via":"LLDP",
      "chassis":{"id":{"type":"mac","value":"00:1c:73:00:00:01"},"descr":"x"},
      "port":{"id":{"type":"local","value":"17"}}}}}})"),
            (Neighbours{{"up1", "", "17", ""}}));
  EXPECT_EQ(parse_lldp(R"({"lldp":{"interface":[
      {"up1":{"chassis":{"b":{}},"port":{"id":{"type":"ifname","value":"Ethernet1/1"}}}},
      {"up1":{"chassis":{"a":{}},"port":{"id":{"type":"ifname","value":"swp1"},"descr":"to up1"}}},
      {"up1":{"chassis":{"a":{}},"port":{"id":{"type":"ifname","value":"swp1"},"descr":"to up1"}}}
      ]}})"),
            (Neighbours{{"up1", "a", "swp1", "to up1"}, {"up1", "b", "Ethernet1/1", ""}}));
}

TEST(Lldp, SafetyRule10WhatNoLldpdPrintsIsRefusedOrPassedOver) {
  for (const char* const other :
       {"", "{", "null", "[]", "7", R"({"lldp":7})", R"({"lldp":[]})", R"({"LLDP":{}})"})
    EXPECT_FALSE(parse_lldp(other)) << other;
  for (const char* const none :
       {R"({"lldp":{"interface":7}})", R"({"lldp":{"interface":[7,[],"up1",null]}})",
        R"({"lldp":{"interface":{"":{},"a name far too long":{},"a/b":{},"a b":{}}}})",
        R"({"lldp":[{"interface":[{"name":7}]}]})"})
    EXPECT_EQ(parse_lldp(none), Neighbours{}) << none;
  for (const char* const bare :
       {R"({"lldp":{"interface":{"up1":null}}})", R"({"lldp":{"interface":{"up1":7}}})",
        R"({"lldp":{"interface":{"up1":{"chassis":7,"port":[[]]}}}})",
        R"({"lldp":[{"interface":[{"name":"up1"}]}]})"}) {
    const auto parsed = parse_lldp(bare);
    ASSERT_TRUE(parsed) << bare;
    for (const LldpNeighbour& neighbour : *parsed)
      EXPECT_EQ(neighbour, (LldpNeighbour{"up1", "", "", ""})) << bare;
  }
}

TEST(Lldp, SafetyRule10TextsOfNeighboursAreFreedOfWhatTerminalsObey) {
  const std::string long_name(254, 'n');
  const auto parsed = parse_lldp(R"({"lldp":{"interface":{"up1":{"chassis":{"a\u001b[2Jb\n":{}},
      "port":{"id":{"value":")" + long_name +
                                 "\xc3\xa9" + R"("},"descr":"\u007fd1"}}}}})");
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->size(), 1U);
  EXPECT_EQ(parsed->front(), (LldpNeighbour{"up1", "a[2Jb", long_name, "d1"}));
}

class LldpFileTest : public ::testing::Test {
 protected:
  LldpFileTest() {
    std::string name = ::testing::TempDir() + "heddle-lldp-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    file_ = folder_ / "lldp.json";
  }
  ~LldpFileTest() override { std::filesystem::remove_all(folder_); }
  // As its writer does: a whole file takes the place of the last.
  void write(const std::string& text, int second) {
    std::ofstream(folder_ / "new") << text;
    std::filesystem::rename(folder_ / "new", file_);
    const timespec times[2] = {{second, 0}, {second, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, file_.c_str(), times, 0), 0);
  }
  static WallTime at(int second) { return WallTime(std::chrono::seconds(second)); }
  static std::string neighbour(const std::string& name) {
    return R"({"lldp":{"interface":{"up1":{"chassis":{")" + name +
           R"(":{}},"port":{"id":{"value":"d1"}}}}}})";
  }

  std::filesystem::path folder_, file_;
};

TEST_F(LldpFileTest, IsReadAgainWhenItIsRenewed) {
  LldpFile source(file_);
  write(neighbour("spine1"), 1'000);
  EXPECT_EQ(source.neighbours(at(1'001)), (Neighbours{{"up1", "spine1", "d1", ""}}));
  write(neighbour("spine2"), 1'030);
  EXPECT_EQ(source.neighbours(at(1'031)), (Neighbours{{"up1", "spine2", "d1", ""}}));
  EXPECT_TRUE(source.probe(at(1'031)).usable);
}

TEST_F(LldpFileTest, SafetyRule7WhatIsNotRenewedIsNotKnown) {
  LldpFile source(file_);
  EXPECT_EQ(source.neighbours(at(1'000)), std::nullopt);
  EXPECT_NE(source.probe(at(1'000)).reason.find("install lldpd"), std::string::npos);
  write(neighbour("spine1"), 1'000);
  EXPECT_NE(source.neighbours(at(1'120)), std::nullopt);
  EXPECT_EQ(source.neighbours(at(1'121)), std::nullopt);
  EXPECT_NE(source.probe(at(1'121)).reason.find("not renewed for 120 s"), std::string::npos);
  write("{}", 1'130);
  EXPECT_EQ(source.neighbours(at(1'131)), std::nullopt);
  EXPECT_FALSE(source.probe(at(1'131)).usable);
  write(R"({"lldp":{}})", 1'140);
  EXPECT_EQ(source.neighbours(at(1'141)), Neighbours{}) << "nobody is known to be nobody";
}

}  // namespace
}  // namespace heddle
