// What was typed, as a value. CLI11 is included by command_line*.cpp and simulate_command.cpp
// alone, because it costs seconds to compile. Pure: no files, no environment. Any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "common/core/access.h"
#include "common/core/units.h"
#include "coordinator/cli/simulate_command.h"

namespace heddle {

// Exit codes of `heddle`, documented in heddle(1).
enum class Exit : int {
  ok = 0,
  failed = 1,       // the coordinator refused or failed; a check found mistakes
  usage = 2,        // the command line, the configuration or a key file is wrong
  unreachable = 3,  // no coordinator answered, or it refused our key
  not_found = 4,    // what was asked for does not exist
};

// Where the coordinator is and who we are; what is not given comes from the configuration file.
struct ConnectionOptions {
  std::optional<std::string> coordinator;  // "tcp://10.255.0.1:7117"
  std::optional<std::filesystem::path> key;
  std::optional<std::filesystem::path> server_key;
  std::optional<std::filesystem::path> config;
  bool plain{};
  Duration timeout{std::chrono::seconds{3}};
};

// A question to the coordinator.
struct Ask {
  std::string command;  // "plan show"
  std::vector<std::string> arguments;
  // Files that are here and whose text the coordinator needs: each becomes two more arguments, its
  // option and the text.
  std::vector<std::pair<std::string, std::filesystem::path>> files{};
  std::optional<Duration> watch;  // ask again after so long, for ever
  bool follow{};                  // and then only for what came since
};

struct Keygen {
  std::filesystem::path folder;
  std::string name;
};

inline constexpr const char* kAuthorisedKeys = "/etc/heddle/authorised";

struct KeyAdd {
  std::filesystem::path folder{kAuthorisedKeys};
  std::filesystem::path file;  // NAME.pub
  KeyRole role{};
  std::string name{};  // empty: the file's
};
struct KeyList {
  std::filesystem::path folder{kAuthorisedKeys};
};
struct KeyRevoke {
  std::filesystem::path folder{kAuthorisedKeys};
  std::string name;
  std::optional<KeyRole> role{};
};

struct SupportBundle {
  std::filesystem::path file;  // empty: named after the time, in the present folder
};

struct FabricCheck {
  std::filesystem::path fabric;
  std::optional<std::filesystem::path> jobs;
};

using Action =
    std::variant<Ask, Keygen, KeyAdd, KeyList, KeyRevoke, SupportBundle, FabricCheck, Simulate>;

struct Invocation {
  ConnectionOptions connection;
  bool json{};
  Action action;
};

// Nothing is to be done but to print this: help (Exit::ok, to standard output) or what was wrong
// (Exit::usage).
struct Usage {
  Exit exit{};
  std::string text;
};

// `arguments` without the program's own name.
tl::expected<Invocation, Usage> parse_command_line(const std::vector<std::string>& arguments,
                                                   std::string_view version);

// Every command as it is typed ("plan show") with its own options ("--watch"); "" has the options
// of all commands. The test of the completions and of the manual reads it.
struct CommandWords {
  std::string command;
  std::vector<std::string> options;
};
std::vector<CommandWords> all_command_words();

}  // namespace heddle
