// The manual page and the completions keep up with the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/cli/command_line.h"
#include "tests/tree.h"

namespace heddle {
namespace {

const std::string kFolder = std::string(HEDDLE_SOURCE_DIR) + "/coordinator/cli/";

std::string file(const std::string& name) {
  std::ifstream in(kFolder + name);
  EXPECT_TRUE(in) << name;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// What a shell command prints, errors included; its exit status follows on a line of its own.
std::string printed(const std::string& command) {
  std::FILE* pipe = popen(("(" + command + ") 2>&1; echo \"status $?\"").c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string out;
  std::array<char, 4096> block{};
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe))
    out.append(block.data(), count);
  pclose(pipe);
  return out;
}

std::string last_word(const std::string& command) {
  return command.substr(command.rfind(' ') + 1);
}

// What bash offers after `typed`, for its last, perhaps empty, word.
std::vector<std::string> completions(const std::vector<std::string>& typed) {
  std::string words;
  for (const std::string& word : typed)
    words += " '" + word + "'";
  const std::string out = printed(
      "bash -c 'source \"" + kFolder + "heddle.bash\"; shift; COMP_WORDS=(\"$@\"); " +
      "COMP_CWORD=$(($# - 1)); _heddle; printf \"%s\\n\" \"${COMPREPLY[@]}\"' bash -" + words);
  std::vector<std::string> lines;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  EXPECT_EQ(lines.back(), "status 0") << out;
  lines.pop_back();
  return lines;
}

TEST(Manual, HasEveryCommandAndOption) {
  std::string manual = file("heddle.1");
  manual.erase(std::remove(manual.begin(), manual.end(), '\\'), manual.end());
  for (const CommandWords& words : all_command_words()) {
    const bool group = words.command == "plan" || words.command == "job" ||
                       words.command == "fabric" || words.command == "key" ||
                       words.command == "rollout";
    if (!words.command.empty() && !group) {
      EXPECT_THAT(manual, testing::HasSubstr("heddle " + words.command));
    }
    for (const std::string& option : words.options)
      EXPECT_THAT(manual, testing::HasSubstr(option)) << words.command;
  }
}

TEST(Manual, IsSetWithoutAWarning) {
  for (const char* page : {"coordinator/cli/heddle.1", "coordinator/heddle-coordinator.8",
                           "agent/heddle-agent.8", "common/runtime/heddle-config.5"})
    EXPECT_EQ(printed("LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z '" +
                      std::string(HEDDLE_SOURCE_DIR) + "/" + page + "' >/dev/null"),
              "status 0\n")
        << page;
}

// Text of the project, by its path.
std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(std::filesystem::path(HEDDLE_SOURCE_DIR) / path);
  EXPECT_TRUE(in) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The named blocks of shell in a document: what is between "```sh NAME" and its end, without what
// it is indented by.
std::map<std::string, std::string> shell_blocks(const std::string& document) {
  std::map<std::string, std::string> blocks;
  std::string* open = nullptr;
  std::istringstream in(document);
  for (std::string line; std::getline(in, line);) {
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    if (line.starts_with("```sh "))
      open = &blocks[line.substr(6)];
    else if (line == "```")
      open = nullptr;
    else if (open != nullptr)
      *open += line + "\n";
  }
  return blocks;
}

// What the README tells operators to type is the guide's, whose blocks the scenarios of tests/e2e
// run (tests/systemd/package); what it shows of a session is printed by a test in the laboratory.
TEST(Readme, HasNoCommandThatNoTestRuns) {
  const std::string readme = text_of("README.md");
  const auto guide = shell_blocks(text_of("systemd/guide.md"));
  std::size_t steps = 0;
  for (const auto& [name, commands] : shell_blocks(readme)) {
    if (name == "proof")
      continue;  // tests/bench/run takes it out of the README itself.
    ASSERT_TRUE(guide.contains(name)) << name;
    EXPECT_EQ(commands, guide.at(name)) << name;
    ++steps;
  }
  EXPECT_GE(steps, 8U);
  const std::string laboratory = text_of("tests/lab/rollout_test.cpp");
  std::size_t shown = 0;
  std::istringstream in(readme);
  for (std::string line; std::getline(in, line);) {
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    if (line.starts_with("$ heddle ")) {
      EXPECT_THAT(laboratory, testing::HasSubstr("show(\"" + line.substr(9) + "\")"));
      ++shown;
    }
  }
  EXPECT_GE(shown, 8U);
}

// A key of a configuration file begins a line of its example; those that only show their default
// are commented out.
TEST(Manual, DescribesEveryKeyOfTheConfigurationFiles) {
  std::string manual;
  {
    std::ifstream in(std::string(HEDDLE_SOURCE_DIR) + "/common/runtime/heddle-config.5");
    std::stringstream text;
    text << in.rdbuf();
    manual = text.str();
  }
  for (const char* example : {"coordinator.yaml.example", "agent.yaml.example"}) {
    std::ifstream in(std::string(HEDDLE_SOURCE_DIR) + "/systemd/" + example);
    int keys = 0;
    for (std::string line; std::getline(in, line);) {
      const std::size_t begin = std::min(line.find_first_not_of(" #"), line.size());
      const std::size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", begin);
      const bool key = end != std::string::npos && end > begin && line[end] == ':';
      // A sentence with a colon goes on after a blank behind "# "; a key's "#" touches it.
      if (!key || line.find("# ") == 0)
        continue;
      ++keys;
      EXPECT_THAT(manual, testing::HasSubstr(".B " + line.substr(begin, end - begin) + "\n"))
          << example;
    }
    EXPECT_GT(keys, 15) << example;
  }
}

TEST(BashCompletion, OffersEveryCommandAndOption) {
  for (const CommandWords& words : all_command_words()) {
    std::vector<std::string> typed{"heddle"};
    std::istringstream in(words.command);
    for (std::string word; in >> word;)
      typed.push_back(word);
    if (!words.command.empty()) {
      std::vector<std::string> before = typed;
      before.back() = before.back().substr(0, before.back().size() - 1);
      EXPECT_THAT(completions(before), testing::Contains(last_word(words.command)));
    }
    for (const std::string& option : words.options) {
      std::vector<std::string> with = typed;
      with.push_back(option.substr(0, option.size() - 1));
      EXPECT_THAT(completions(with), testing::Contains(option)) << words.command;
    }
  }
}

TEST(BashCompletion, PassesOverOptionsAndTheirValues) {
  EXPECT_THAT(completions({"heddle", "--timeout", "5", "--json", "plan", "sh"}),
              testing::ElementsAre("show"));
  EXPECT_THAT(completions({"heddle", "plan", "--json", "show", "--js"}),
              testing::ElementsAre("--json"));
}

TEST(BashCompletion, OffersFilesWhereAFileIsMeant) {
  const std::string prefix = kFolder + "heddle.";
  EXPECT_THAT(completions({"heddle", "fabric", "check", prefix}),
              testing::UnorderedElementsAre(prefix + "1", prefix + "bash"));
  EXPECT_THAT(completions({"heddle", "--key", prefix}),
              testing::UnorderedElementsAre(prefix + "1", prefix + "bash"));
}

TEST(ZshCompletion, IsUnderstoodByZsh) {
  EXPECT_EQ(printed("zsh -fn '" + kFolder + "_heddle'"), "status 0\n");
}

// What the zsh completion offers after a first word.
std::string zsh_branch(const std::string& zsh, const std::string& word) {
  std::istringstream in(zsh);
  std::string text;
  for (std::string line; std::getline(in, line);) {
    // "        drain | undrain)", at this depth and no other.
    const bool opens = text.empty() && line.find_first_not_of(' ') == 8;
    std::istringstream names(opens ? line.substr(0, line.find(')')) : "");
    bool begins = false;
    for (std::string name; names >> name;)
      begins = begins || name == word;
    if (begins || !text.empty())
      text += line + "\n";
    if (!text.empty() && line.find(";;") != std::string::npos)
      break;
  }
  return text;
}

// The words right before a mark, made of these letters: "--json" of "--json[print]" before "[".
std::set<std::string> words_before(const std::string& text, std::string_view mark,
                                   const std::string& prefix) {
  const std::string letters = "abcdefghijklmnopqrstuvwxyz-";
  std::set<std::string> found;
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const auto before = at == 0 ? std::string::npos : text.find_last_not_of(letters, at - 1);
    const auto first = before == std::string::npos ? 0 : before + 1;
    const std::string word = text.substr(first, at - first);
    if (word.size() > prefix.size() && word.starts_with(prefix))
      found.insert(word);
  }
  return found;
}

// By first word: no command is offered under another's name, and none that there is not.
TEST(ZshCompletion, OffersUnderEachWordWhatBelongsThereAndNothingElse) {
  const std::string zsh = file("_heddle");
  const std::set<std::string> everywhere =
      words_before(zsh.substr(0, zsh.find("commands=(")), "[", "--");
  std::map<std::string, std::set<std::string>> commands, options;
  for (const CommandWords& words : all_command_words()) {
    const std::string first = words.command.substr(0, words.command.find(' '));
    if (first.empty())
      continue;
    if (first != words.command)
      commands[first].insert(last_word(words.command));
    options[first].insert(words.options.begin(), words.options.end());
  }
  for (auto& [first, names] : options) {
    const std::string branch = zsh_branch(zsh, first);
    std::set<std::string> offered = words_before(branch, "[", "--");
    for (const std::string& one : everywhere) {
      offered.erase(one);
      names.erase(one);
    }
    EXPECT_EQ(offered, names) << first;
    EXPECT_EQ(words_before(branch, "\\:", ""), commands[first]) << first;
  }
}

TEST(ZshCompletion, HasEveryCommandAndOption) {
  const std::string zsh = file("_heddle");
  for (const CommandWords& words : all_command_words()) {
    if (!words.command.empty()) {
      EXPECT_THAT(zsh, testing::ContainsRegex("['\"( ]" + last_word(words.command) + "\\\\?:"))
          << words.command;
    }
    for (const std::string& option : words.options)
      EXPECT_THAT(zsh, testing::HasSubstr(option + "[")) << words.command;
  }
}

}  // namespace
}  // namespace heddle
