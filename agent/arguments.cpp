#include "agent/arguments.h"

#include <getopt.h>

#include <cstdio>
#include <cstdlib>

#include "agent/commands.h"

namespace heddle {
namespace {

constexpr const char* kHelp = R"(Usage: heddle-agent [COMMAND] [OPTION...]

Observes the flows that leave this host or leaf, reports them to heddle's coordinator, and holds the paths
that it plans.

Commands:
  run                   observe, report and program (the default)
  probe [--json]        say what heddle could see and do on this machine, and what is missing for the rest
  disable               remove every pin and program none until enabled; survives restarts
  enable                the way back
  flush                 remove every pin of an agent that is not running
  guard [--watch]       remove the pins of a dead agent whose lease is over; --watch: stay and do so
  reconcile --dry-run [--json]
                        print what would be changed to make the tables agree with the last plan
  record DIR            record what this machine's RDMA tells and sampled packets, to tell it again in tests

Options:
  --config FILE         the configuration ()" /* the default is printed in between */;
constexpr const char* kHelpEnd = R"()
  --seconds N           how long to record (5)
  --check-config        read the configuration, say what is wrong with it, and end
  --version             print the version and end
  --help                print this and end
)";

}  // namespace

Parsed parse(int argc, char** argv, const char* software) {
  enum Option : int {
    kConfig = 'c',
    kCheck = 256,
    kWatch,
    kDry,
    kJson,
    kSeconds,
    kVersion,
    kHelpWanted
  };
  static constexpr option kOptions[] = {{"config", required_argument, nullptr, kConfig},
                                        {"check-config", no_argument, nullptr, kCheck},
                                        {"watch", no_argument, nullptr, kWatch},
                                        {"dry-run", no_argument, nullptr, kDry},
                                        {"json", no_argument, nullptr, kJson},
                                        {"seconds", required_argument, nullptr, kSeconds},
                                        {"version", no_argument, nullptr, kVersion},
                                        {"help", no_argument, nullptr, kHelpWanted},
                                        {nullptr, 0, nullptr, 0}};
  Parsed parsed;
  Arguments& arguments = parsed.arguments;
  for (int option = 0; (option = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    switch (option) {
      case kConfig:
        arguments.config = optarg;
        break;
      case kCheck:
        arguments.check_config = true;
        break;
      case kWatch:
        arguments.watch = true;
        break;
      case kDry:
        arguments.dry_run = true;
        break;
      case kJson:
        arguments.json = true;
        break;
      case kSeconds:
        arguments.length = std::chrono::seconds{std::atoi(optarg)};
        break;
      case kVersion:
        std::puts(software);
        parsed.exit = kOk;
        return parsed;
      case kHelpWanted:
        std::printf("%s%s%s", kHelp, kDefaultConfig, kHelpEnd);
        parsed.exit = kOk;
        return parsed;
      default:
        parsed.exit = kUsage;
        return parsed;  // getopt has said why
    }
  }
  if (optind < argc)
    arguments.command = argv[optind++];
  if (arguments.command == "record" && optind < argc)
    arguments.folder = argv[optind++];
  const std::string& command = arguments.command;
  const bool known = command == "run" || command == "probe" || command == "disable" ||
                     command == "enable" || command == "flush" || command == "guard" ||
                     command == "reconcile" || command == "record";
  const char* wrong = nullptr;
  if (optind < argc)
    wrong = "too many arguments";
  else if (!known)
    wrong = "no such command";
  else if (command == "record" && arguments.folder.empty())
    wrong = "into which folder?";
  else if (arguments.length < std::chrono::seconds{1} || arguments.length > std::chrono::hours{1})
    wrong = "--seconds takes 1 to 3600";
  else if (arguments.watch && command != "guard")
    wrong = "--watch belongs to guard";
  else if (arguments.json && command != "probe" && command != "reconcile")
    wrong = "--json belongs to probe and reconcile";
  else if (arguments.dry_run != (command == "reconcile"))
    wrong = command == "reconcile"
                ? "the agent reconciles by itself; only --dry-run is offered here"
                : "--dry-run belongs to reconcile";
  if (wrong) {
    std::fprintf(stderr, "heddle-agent: %s: %s; see --help\n", command.c_str(), wrong);
    parsed.exit = kUsage;
  }
  return parsed;
}

}  // namespace heddle
