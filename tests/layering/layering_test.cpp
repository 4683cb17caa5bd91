// The dependency rule over every #include of the project; and that the check sees what it should,
// on made-up trees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "tests/layering/include_rules.h"
#include "tests/tree.h"

namespace heddle::layering {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::filesystem::path kRoot = HEDDLE_SOURCE_DIR;

std::string contents(const std::filesystem::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in) << file;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Layering, TheProjectKeepsTheRule) {
  std::string all;
  for (const std::string& violation : violations(kRoot))
    all += violation + "\n";
  EXPECT_EQ(all, "");
}

TEST(Layering, EveryRuleIsOfSomethingThatExists) {
  for (const Rule& rule : rules()) {
    bool found = false;
    const auto folder = kRoot / folder_of(rule.path);
    if (std::filesystem::is_directory(folder))
      for (const auto& entry : std::filesystem::directory_iterator(folder))
        found = found || (is_source(entry.path()) && std::filesystem::relative(entry.path(), kRoot)
                                                         .generic_string()
                                                         .starts_with(rule.path));
    EXPECT_TRUE(found) << rule.path;
  }
}

// The core's promise is also about what the standard library's harmless headers offer.
TEST(Layering, TheCoreAsksNoClockAndDrawsNothingUnseeded) {
  const std::regex impure(
      R"(\b(random_device|steady_clock|system_clock|high_resolution_clock|getenv|fopen|rand|time)\s*[:({]|\b(random_device)\b)");
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "common/core")) {
    std::istringstream in(contents(entry.path()));
    for (std::string line; std::getline(in, line);) {
      line.resize(std::min(line.find("//"), line.size()));
      EXPECT_FALSE(std::regex_search(line, impure)) << entry.path() << ": " << line;
    }
  }
}

// Link edges of CMakeLists.txt, folder by folder: what links may know no more than what the table
// allows.
TEST(Layering, LinkEdgesAreWithinTheRule) {
  const std::string cmake = contents(kRoot / "CMakeLists.txt");
  const std::regex library(R"(\nheddle_library\((\w+) ([\w/]+)([^)]*)\))");
  std::map<std::string, std::string> folder_by_name;
  std::map<std::string, std::string> links_by_folder;
  for (std::sregex_iterator it(cmake.begin(), cmake.end(), library), end; it != end; ++it) {
    folder_by_name[(*it)[1]] = (*it)[2].str() + "/";
    links_by_folder[(*it)[2].str() + "/"] = (*it)[3];
  }
  ASSERT_GE(folder_by_name.size(), 15U);
  for (const auto& [folder, links] : links_by_folder) {
    const Rule* rule = rule_of(folder + "any.cpp");
    ASSERT_NE(rule, nullptr) << folder;
    std::istringstream words(links);
    for (std::string word; words >> word;) {
      const auto linked = folder_by_name.find(word);
      if (linked == folder_by_name.end())
        continue;
      // An adapter's file may need an edge that its folder's logic may not use.
      const bool allowed =
          std::any_of(rules().begin(), rules().end(), [&, &f = folder](const Rule& one) {
            return folder_of(one.path) == f && !one.path.ends_with("main.cpp") &&
                   std::any_of(one.ours.begin(), one.ours.end(), [&](std::string_view ours) {
                     return ours.starts_with(linked->second);
                   });
          });
      EXPECT_TRUE(allowed) << folder << " links " << word;
    }
  }
}

class MadeUpTree : public testing::Test {
 protected:
  MadeUpTree()
      : root_(std::filesystem::path(testing::TempDir()) /
              ("heddle_layering_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(root_);
  }
  ~MadeUpTree() override { std::filesystem::remove_all(root_); }
  void file(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  std::vector<std::string> found() const { return violations(root_); }

  std::filesystem::path root_;
};

TEST_F(MadeUpTree, ThatKeepsTheRuleHasNoViolation) {
  file("common/core/a.h",
       "#include <vector>\n#include <fmt/format.h>\n#include \"common/core/b.h\"\n");
  file("agent/report/a.cpp", "#include \"agent/report/a.h\"\n#include \"common/core/a.h\"\n");
  file(
      "agent/main.cpp",
      "#include \"agent/netlink/netlink_kernel.h\"\n#include \"common/transport/zmq_channel.h\"\n");
  file("coordinator/history/rocksdb_history.cpp", "#include <rocksdb/db.h>\n");
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(MadeUpTree, AgentAndCoordinatorNeverIncludeEachOther) {
  file("agent/agent.cpp", "// first\n#include \"coordinator/decide/decide.h\"\n");
  file("coordinator/predict/p.cpp", "#include \"agent/report/reporter.h\"\n");
  EXPECT_THAT(
      found(),
      ElementsAre(HasSubstr("agent/agent.cpp:2: includes coordinator/decide/decide.h"),
                  HasSubstr("coordinator/predict/p.cpp:1: includes agent/report/reporter.h")));
}

TEST_F(MadeUpTree, TheCoreKnowsOnlyTheStandardLibraryFmtAndExpected) {
  file("common/core/a.cpp",
       "#include <yaml-cpp/yaml.h>\n  #  include <unistd.h>\n#include <thread>\n#include "
       "\"common/wire/codec.h\"\n"
       "#include <tl/expected.hpp>\n#include <iostream>\n");
  EXPECT_THAT(
      found(),
      ElementsAre(HasSubstr(":1: includes yaml-cpp/yaml.h"), HasSubstr(":2: includes unistd.h"),
                  HasSubstr(":3: includes thread"), HasSubstr(":4: includes common/wire/codec.h"),
                  HasSubstr(":6: includes iostream")));
}

TEST_F(MadeUpTree, LogicNeverIncludesAnAdapter) {
  file("agent/program/p.cpp", "#include \"agent/netlink/netlink_kernel.h\"\n");
  file("agent/agent.cpp",
       "#include \"common/transport/zmq_channel.h\"\n#include \"agent/observe/tc_bpf_source.h\"\n");
  file("coordinator/coordinator.cpp", "#include \"coordinator/history/rocksdb_history.h\"\n");
  file("coordinator/serve/s.cpp", "#include \"coordinator/history/rocksdb_history.h\"\n");
  file("coordinator/cli/run.cpp", "#include \"common/transport/zmq_channel.h\"\n");
  const auto all = found();
  EXPECT_EQ(all.size(), 6U);
  for (const std::string& violation : all)
    EXPECT_THAT(violation, HasSubstr("include an adapter"));
}

TEST_F(MadeUpTree, OnlyAdaptersKnowTheirLibraries) {
  file("common/transport/channel.h", "#include <zmq.h>\n");
  file("agent/program/p.cpp", "#include <netlink/netlink.h>\n");
  file("agent/observe/o.cpp", "#include <bpf/libbpf.h>\n");
  file("coordinator/history/history.h", "#include <rocksdb/db.h>\n");
  file("coordinator/main.cpp", "#include <rocksdb/db.h>\n");
  file("coordinator/cli/run.cpp", "#include <CLI/App.hpp>\n");
  EXPECT_EQ(found().size(), 6U);
}

TEST_F(MadeUpTree, OnlyTheCodecKnowsGeneratedHeaders) {
  file("common/wire/encode.cpp", "#include \"schemas/heddle.capnp.h\"\n");
  file("common/wire/codec.h", "#include \"schemas/heddle.capnp.h\"\n");
  file("coordinator/serve/s.cpp", "#include \"schemas/heddle.capnp.h\"\n");
  EXPECT_THAT(found(), ElementsAre(HasSubstr("common/wire/codec.h:1"),
                                   HasSubstr("coordinator/serve/s.cpp:1")));
}

TEST_F(MadeUpTree, PathsAreWrittenFromTheRootAndNeverIntoTests) {
  file("agent/report/a.cpp",
       "#include \"reporter.h\"\n#include \"../program/p.h\"\n#include \"tests/lab/netns.h\"\n");
  EXPECT_EQ(found().size(), 3U);
}

TEST_F(MadeUpTree, ANewFolderNeedsARule) {
  file("coordinator/billing/b.cpp", "#include <vector>\n");
  EXPECT_THAT(found(), ElementsAre(HasSubstr("coordinator/billing/b.cpp: no rule")));
}

}  // namespace
}  // namespace heddle::layering
