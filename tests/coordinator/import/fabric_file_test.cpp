#include "coordinator/import/fabric_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <ostream>
#include <string>

namespace heddle {

void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.line << ": " << mistake.message;
}

namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

testing::Matcher<Mistake> mistake(int line, const std::string& part) {
  return AllOf(Field(&Mistake::line, line), Field(&Mistake::message, HasSubstr(part)));
}

// Two leaves, two spines, a host on each leaf; leaf1 has parallel cables to spine1.
const std::string kGood = R"(fabric: demo
leaves:
  - {name: leaf1, rack: rack1}
  - {name: leaf2}
spines:
  - {name: spine1}
  - {name: spine2}
hosts:
  - name: h1-1
    rack: rack1
    nics:
      - {name: eth0, address: 10.1.1.2, attachments: [{leaf: leaf1, port: p1, capacity: 100G}]}
  - name: h2-1
    nics:
      - name: eth0
        address: 10.2.1.2
        attachments:
          - {leaf: leaf1, port: p2, capacity: 25G}
          - {leaf: leaf2, port: p1, capacity: 25G}
cables:
  - {leaf: leaf1, spine: spine1, leaf_port: up1, spine_port: d1, capacity: 100G}
  - {leaf: leaf1, spine: spine1, leaf_port: up1b, spine_port: d1b, capacity: 0.4T}
  - {leaf: leaf1, spine: spine2, leaf_port: up2, spine_port: d1, capacity: 100G}
  - {leaf: leaf2, spine: spine2, leaf_port: up2, spine_port: d2, capacity: 25000M}
)";

Topology good() {
  auto topology = parse_fabric(kGood);
  EXPECT_TRUE(topology) << describe("good", topology.error());
  return std::move(*topology);
}

Mistakes mistakes_of(const std::string& yaml) {
  const auto topology = parse_fabric(yaml);
  return topology ? Mistakes{} : topology.error();
}

// The good file with one line of it (1-based) written anew.
std::string with_line(int line, const std::string& text) {
  std::string out;
  int number = 0;
  std::size_t begin = 0;
  while (begin < kGood.size()) {
    const std::size_t end = kGood.find('\n', begin);
    out += (++number == line ? text : kGood.substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  return out;
}

TEST(FabricFile, IsReadIntoATopology) {
  const Topology t = good();
  EXPECT_EQ(t.name(), "demo");
  EXPECT_THAT(t.leaves(), SizeIs(2));
  EXPECT_THAT(t.spines(), SizeIs(2));
  EXPECT_THAT(t.cables(), SizeIs(4));
  EXPECT_THAT(t.attachments(), SizeIs(3));
  EXPECT_THAT(t.cables_between({0}, {0}), SizeIs(2));
  EXPECT_EQ(t.leaves()[0].rack, "rack1");
  EXPECT_EQ(t.leaves()[1].rack, "leaf2");
  EXPECT_EQ(t.cables()[1].capacity, 400_gbps);
  EXPECT_EQ(t.cables()[3].capacity, 25_gbps);
  EXPECT_EQ(t.attachments()[2].leaf_port, "p1");
  EXPECT_EQ(t.find_nic(IpAddress::v4(10, 2, 1, 2)), NicId{1});
}

TEST(FabricFile, NamesThePortsOfAHostWithSeveral) {
  std::string text = kGood;
  text.replace(text.find("port: p2,"), 9, "port: p2, host_port: eth7,");
  const auto t = parse_fabric(text);
  ASSERT_TRUE(t) << describe("fabric", t.error());
  EXPECT_EQ(t->attachments()[1].host_port, "eth7");
  EXPECT_EQ(t->attachments()[2].host_port, "eth0") << "the NIC's name";
  text.replace(text.find("eth7"), 4, "eth/7");
  EXPECT_FALSE(parse_fabric(text));
}

TEST(FabricFile, NamesADuplicateNameWithItsLine) {
  EXPECT_THAT(mistakes_of(with_line(7, "  - {name: spine1}")),
              testing::Contains(mistake(7, "'spine1' is used twice")));
}

TEST(FabricFile, NamesAnUnknownLeafWithItsLine) {
  EXPECT_THAT(mistakes_of(with_line(18, "          - {leaf: leaf9, port: p2, capacity: 25G}")),
              ElementsAre(mistake(18, "leaf9")));
  EXPECT_THAT(
      mistakes_of(with_line(
          21, "  - {leaf: leaf7, spine: spine1, leaf_port: up1, spine_port: d1, capacity: 100G}")),
      ElementsAre(mistake(21, "leaf7")));
}

TEST(FabricFile, NamesAZeroCapacityWithItsLine) {
  EXPECT_THAT(
      mistakes_of(with_line(
          22, "  - {leaf: leaf1, spine: spine1, leaf_port: up1b, spine_port: d1b, capacity: 0G}")),
      ElementsAre(mistake(22, "more than zero")));
}

TEST(FabricFile, NamesACableToItselfWithItsLine) {
  EXPECT_THAT(
      mistakes_of(with_line(
          23, "  - {leaf: leaf1, spine: leaf1, leaf_port: up2, spine_port: d1, capacity: 100G}")),
      ElementsAre(mistake(23, "to itself")));
}

TEST(FabricFile, NamesAPortAndAnAddressUsedTwiceWithTheirLines) {
  EXPECT_THAT(
      mistakes_of(with_line(
          23, "  - {leaf: leaf1, spine: spine2, leaf_port: up1, spine_port: d1, capacity: 100G}")),
      ElementsAre(mistake(23, "'up1'")));
  EXPECT_THAT(mistakes_of(with_line(16, "        address: 10.1.1.2")),
              ElementsAre(mistake(15, "10.1.1.2")));
}

TEST(FabricFile, ReportsEveryMistakeInTheOrderOfLines) {
  const std::string yaml = R"(fabric: demo
colour: blue
leaves:
  - {name: leaf1, height: 3}
  - {name: leaf1}
  - {rack: r}
spines:
  - {name: spine 1}
hosts:
  - name: h1
    nics:
      - {name: eth0, address: 10.1.1.300, attachments: [{leaf: leaf2, port: p1, capacity: 1Gb}]}
cables:
  - {leaf: leaf1, spine: spine8, leaf_port: up1, spine_port: d1, capacity: -5}
  - {leaf: leaf1, leaf: leaf1}
)";
  EXPECT_THAT(mistakes_of(yaml),
              ElementsAre(mistake(2, "unknown key 'colour'"), mistake(4, "unknown key 'height'"),
                          mistake(5, "'leaf1' is used twice"), mistake(6, "lacks 'name'"),
                          mistake(8, "'spine 1' is no name"), mistake(12, "'1Gb' is no capacity"),
                          mistake(12, "10.1.1.300"), mistake(12, "leaf2"),
                          mistake(14, "'-5' is no capacity"), mistake(14, "'spine8' is no spine"),
                          mistake(15, "'leaf' is given twice"), mistake(15, "lacks 'spine'"),
                          mistake(15, "lacks 'leaf_port'"), mistake(15, "lacks 'spine_port'"),
                          mistake(15, "lacks 'capacity'")));
}

TEST(FabricFile, AnEntryThatCannotBeReadIsNotReportedASecondTimeInOtherWords) {
  EXPECT_THAT(mistakes_of(with_line(18, "          - {leaf: leaf1, port: a/b, capacity: 25G}")),
              ElementsAre(mistake(18, "'a/b' is no interface name")));
}

TEST(FabricFile, KindsOfValuesAreChecked) {
  EXPECT_THAT(mistakes_of("just a word"), ElementsAre(mistake(1, "keys and values")));
  EXPECT_THAT(mistakes_of("fabric: [a]\nleaves: {}\nspines: 3\nhosts:\ncables: [1, [2]]\n"),
              ElementsAre(mistake(1, "single value"), mistake(2, "must be a list"),
                          mistake(3, "must be a list"), mistake(4, "must be a list"),
                          mistake(5, "a cable is written"), mistake(5, "a cable is written")));
  EXPECT_THAT(mistakes_of("[a]: b\n"), testing::Contains(mistake(1, "not a word")));
}

TEST(FabricFile, AHostWithoutNicsIsAMistake) {
  EXPECT_THAT(mistakes_of("fabric: f\nleaves: [{name: l}]\nspines: []\ncables: []\n"
                          "hosts:\n - {name: h, nics: []}\n"),
              ElementsAre(mistake(6, "at least one NIC")));
}

TEST(FabricFile, BrokenYamlIsOneMistakeWithItsLine) {
  EXPECT_THAT(mistakes_of("fabric: demo\nleaves: [{name: leaf1\n"), SizeIs(1));
  EXPECT_THAT(mistakes_of("fabric: demo\nleaves:\n\t- x\n"),
              ElementsAre(mistake(3, "not valid YAML")));
  EXPECT_THAT(mistakes_of(""), ElementsAre(mistake(0, "empty")));
  EXPECT_THAT(mistakes_of("# only a comment\n"), ElementsAre(mistake(0, "empty")));
}

TEST(FabricFile, ASecondDocumentIsAMistake) {
  EXPECT_THAT(mistakes_of(kGood + "---\nfabric: other\n"),
              ElementsAre(mistake(26, "second document")));
}

TEST(FabricFile, AliasesAreRefusedBecauseAFewBytesOfThemStandForGigabytes) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k)
      bomb += "*a" + std::to_string(i - 1) + ", ";
    bomb += "]\n";
  }
  EXPECT_THAT(mistakes_of(bomb), ElementsAre(mistake(1, "anchors are not allowed")));
}

TEST(FabricFile, NestingIsBounded) {
  EXPECT_THAT(mistakes_of(std::string(100'000, '[')), ElementsAre(mistake(1, "nested too deeply")));
  std::string blocks;
  for (int i = 0; i < 300; ++i)
    blocks += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_THAT(mistakes_of(blocks), ElementsAre(mistake(17, "nested too deeply")));
}

TEST(FabricFile, SizeIsBounded) {
  EXPECT_THAT(mistakes_of(std::string((std::size_t{16} << 20) + 1, '#')),
              ElementsAre(mistake(0, "more than the 16777216")));
}

TEST(FabricFile, AGridTooLargeToHoldIsAMistake) {
  std::string yaml = "fabric: f\nhosts: []\ncables: []\n";
  for (const char* list : {"leaves", "spines"}) {
    yaml += std::string(list) + ":\n";
    for (int i = 0; i < 2001; ++i)
      yaml += "- {name: " + std::string(1, list[0]) + std::to_string(i) + "}\n";
  }
  EXPECT_THAT(mistakes_of(yaml), ElementsAre(mistake(0, "2001 leaves x 2001 spines")));
}

TEST(FabricFile, TerminalControlBytesAreNotEchoed) {
  const Mistakes found = mistakes_of("\"\\e[31m\": 1\n");
  ASSERT_THAT(found, testing::Not(IsEmpty()));
  EXPECT_EQ(describe("f", found).find('\x1b'), std::string::npos);
}

TEST(FabricFile, AMissingFileAndADirectoryAreMistakesOfTheWholeFile) {
  const auto missing = load_fabric("/nonexistent/fabric.yaml");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error(), ElementsAre(mistake(0, "No such file")));
  const auto folder = load_fabric("/");
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error(), ElementsAre(mistake(0, "Is a directory")));
}

TEST(FabricFile, AnEndlessDeviceIsNotReadForEver) {
  const auto endless = load_fabric("/dev/zero");
  ASSERT_FALSE(endless);
  EXPECT_THAT(endless.error(), ElementsAre(mistake(0, "more than")));
}

TEST(FabricFile, IsLoadedFromItsPath) {
  const std::string path = testing::TempDir() + "heddle_fabric_file_test.yaml";
  std::ofstream(path) << kGood;
  const auto topology = load_fabric(path);
  std::remove(path.c_str());
  ASSERT_TRUE(topology);
  EXPECT_EQ(topology->name(), "demo");
}

TEST(FabricFile, MistakesAreDescribedOneALine) {
  EXPECT_EQ(describe("demo.yaml", {{0, "is gone"}, {7, "is odd"}}),
            "demo.yaml: is gone\ndemo.yaml:7: is odd\n");
}

TEST(Capacity, IsBitsPerSecondWithADecimalSuffix) {
  EXPECT_EQ(parse_capacity("100G"), Result<Rate>(100_gbps));
  EXPECT_EQ(parse_capacity("2.5G"), Result<Rate>(2500_mbps));
  EXPECT_EQ(parse_capacity("1T"), Result<Rate>(1000_gbps));
  EXPECT_EQ(parse_capacity("9600"), Result<Rate>(9600_bps));
  EXPECT_EQ(parse_capacity("64K"), Result<Rate>(64000_bps));
  EXPECT_EQ(parse_capacity("25M"), Result<Rate>(25_mbps));
}

TEST(Capacity, RefusesWhatNoCableCarries) {
  for (const char* text : {"", "G", "-1G", "0", "0.0M", "inf", "nan", "1e9", "100g", "100 G",
                           "100Gb", "+5", "0x10", "1..2G"})
    EXPECT_FALSE(parse_capacity(text)) << text;
  EXPECT_FALSE(parse_capacity(std::string(400, '9')));
}

TEST(JobFile, IsReadAgainstTheTopology) {
  const auto jobs =
      parse_jobs("jobs:\n- {name: A, hosts: [h1-1, h2-1]}\n- name: B\n  hosts: [h1-1]\n", good());
  ASSERT_TRUE(jobs) << describe("jobs", jobs.error());
  EXPECT_THAT(*jobs, ElementsAre(JobDeclaration{"A", {"h1-1", "h2-1"}, 2},
                                 JobDeclaration{"B", {"h1-1"}, 3}));
}

TEST(JobFile, NamesAnUnknownHostWithItsLine) {
  const auto jobs = parse_jobs("jobs:\n- name: A\n  hosts:\n  - h1-1\n  - h9-9\n", good());
  ASSERT_FALSE(jobs);
  EXPECT_THAT(jobs.error(), ElementsAre(mistake(5, "job 'A': the fabric has no host 'h9-9'")));
}

TEST(JobFile, ReportsEveryMistake) {
  const auto jobs = parse_jobs(R"(jobs:
- {name: A, hosts: [h1-1, h1-1]}
- {name: A, hosts: [h2-1], priority: 3}
- {name: C, hosts: []}
- {hosts: [[h1-1], nobody]}
)",
                               good());
  ASSERT_FALSE(jobs);
  EXPECT_THAT(jobs.error(),
              ElementsAre(mistake(2, "'h1-1' twice"), mistake(3, "unknown key 'priority'"),
                          mistake(3, "'A' is declared twice"), mistake(4, "'C' has no hosts"),
                          mistake(5, "lacks 'name'"), mistake(5, "given by its name"),
                          mistake(5, "no host 'nobody'")));
}

TEST(JobFile, AnEmptyListOfJobsIsNoMistake) {
  const auto jobs = parse_jobs("jobs: []\n", good());
  ASSERT_TRUE(jobs);
  EXPECT_THAT(*jobs, IsEmpty());
}

}  // namespace
}  // namespace heddle
