// heddle-demo: heddle at work on a fabric of network namespaces, before and after, in two minutes.
//
// Exit status: 0 all is as promised; 1 something was not, or could not be shown; 2 usage; 3 the
// machine was too busy to judge.
#include <fmt/format.h>
#include <getopt.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>

#include "tests/lab/demo.h"

namespace heddle::lab {
namespace {

constexpr int kPassed = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInvalid = 3;

constexpr const char* kHelp = R"(usage: heddle-demo [OPTION...]

Raises a fabric of network namespaces, starts heddle in it, runs two training jobs, and shows what they reach under
ECMP, under heddle, and through failures. Needs root.

  --rate MBIT      rate of every link, in Mbit/s (25)
  --leaves N       2 to 50 (4)
  --spines N       3 to 50 (4); one dies, and a cable of another
  --hosts N        on each leaf, 2 to 50 (4)
  --seed N         which hosts work together, which ports are drawn, which spine dies (1)
  --enforcer NAME  by which paths are held: port-tables (default); flow-marks, which splits flows by queue pair; srv6, by
                   which hosts wrap packets in segments of spines and hosts, and leaves only forward
  --queue-pairs N  that carry each flow, 1 to 16 (1; with flow-marks one less than spines)
  --draws N        of source ports under ECMP, 1 to 100 (10)
  --json FILE      write the numbers to a file, too
  --logs DIR       keep what the daemons said
  --keep           leave fabric and daemons up; `heddle-lab down` removes them
  --programs DIR   where heddle, heddle-agent and heddle-coordinator are (beside this program's folder)

Exit status: 0 all is as promised; 1 something was not, or could not be shown; 2 usage; 3 the machine was too busy to
judge.
)";

template <class Number>
std::optional<Number> number(const char* text, Number least, Number most) {
  Number value{};
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end || value < least || value > most)
    return std::nullopt;
  return value;
}

std::optional<LeafMode> enforcer(std::string_view name) {
  for (const LeafMode mode : {LeafMode::port_tables, LeafMode::flow_marks, LeafMode::segments}) {
    if (enforcer_name(mode) == name)
      return mode;
  }
  return std::nullopt;
}

std::optional<DemoOptions> parse(int argc, char** argv, int& status) {
  enum Option : int {
    kRate = 256,
    kLeaves,
    kSpines,
    kHosts,
    kSeed,
    kEnforcer,
    kQueuePairs,
    kDraws,
    kJson,
    kLogs,
    kKeep,
    kPrograms,
    kHelpWanted
  };
  static constexpr option kOptions[] = {{"rate", required_argument, nullptr, kRate},
                                        {"leaves", required_argument, nullptr, kLeaves},
                                        {"spines", required_argument, nullptr, kSpines},
                                        {"hosts", required_argument, nullptr, kHosts},
                                        {"seed", required_argument, nullptr, kSeed},
                                        {"enforcer", required_argument, nullptr, kEnforcer},
                                        {"queue-pairs", required_argument, nullptr, kQueuePairs},
                                        {"draws", required_argument, nullptr, kDraws},
                                        {"json", required_argument, nullptr, kJson},
                                        {"logs", required_argument, nullptr, kLogs},
                                        {"keep", no_argument, nullptr, kKeep},
                                        {"programs", required_argument, nullptr, kPrograms},
                                        {"help", no_argument, nullptr, kHelpWanted},
                                        {nullptr, 0, nullptr, 0}};
  DemoOptions options;
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  options.programs = self.parent_path().parent_path();
  status = kUsage;
  const auto take = [](auto& target, const auto& value) {
    if (value)
      target = *value;
    return value.has_value();
  };
  for (int option = 0; (option = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    bool good = true;
    switch (option) {
      case kRate:
        good = take(options.fabric.rate.bits_per_second, number<double>(optarg, 1, 10000));
        options.fabric.rate = options.fabric.rate * (good ? 1e6 : 1);
        break;
      case kLeaves:
        good = take(options.fabric.leaves, number<int>(optarg, 2, 50));
        break;
      case kSpines:
        good = take(options.fabric.spines, number<int>(optarg, 3, 50));
        break;
      case kHosts:
        good = take(options.fabric.hosts, number<int>(optarg, 2, 50));
        break;
      case kSeed:
        good = take(options.seed, number<unsigned>(optarg, 0, 1'000'000));
        break;
      case kEnforcer:
        good = take(options.enforcer, enforcer(optarg));
        break;
      case kQueuePairs:
        good = take(options.queue_pairs, number<int>(optarg, 1, 16));
        break;
      case kDraws:
        good = take(options.draws, number<int>(optarg, 1, 100));
        break;
      case kJson:
        options.json = optarg;
        break;
      case kLogs:
        options.logs = optarg;
        break;
      case kKeep:
        options.keep = true;
        break;
      case kPrograms:
        options.programs = optarg;
        break;
      case kHelpWanted:
        fmt::print("{}", kHelp);
        status = kPassed;
        return std::nullopt;
      default:
        return std::nullopt;  // getopt has said why
    }
    if (!good) {
      fmt::print(stderr, "heddle-demo: '{}' is none of what this option takes; see --help\n",
                 optarg);
      return std::nullopt;
    }
  }
  if (optind < argc) {
    fmt::print(stderr, "heddle-demo: unexpected '{}'; see --help\n", argv[optind]);
    return std::nullopt;
  }
  return options;
}

// Whoever interrupts the demonstration wants no fabric left. The thread ends with the process.
void tear_down_when_interrupted(const std::string& prefix) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, prefix] {
    int signal = 0;
    ::sigwait(&signals, &signal);
    fmt::print(stderr, "\ninterrupted: taking the fabric down\n");
    (void)Fabric::tear_down(prefix);
    ::_exit(128 + signal);
  }).detach();
}

// Two demonstrations would take each other's fabric for leftovers. An abstract name is held until
// the process ends, however it ends, and leaves no file.
bool is_alone() {
  const int lock = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  constexpr std::string_view kName{"\0heddle-demo", 12};
  std::memcpy(name.sun_path, kName.data(), kName.size());
  return ::bind(lock, reinterpret_cast<const sockaddr*>(&name),
                static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + kName.size())) == 0;
}

int judge(const DemoOptions& options, const DemoResult& result) {
  const bool colour = ::isatty(STDOUT_FILENO) == 1;
  fmt::print("\n{}\n", to_table(result, colour));
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << to_json(result) << std::flush;
    if (!file) {
      fmt::print(stderr, "heddle-demo: cannot write {}\n", options.json);
      return kFailed;
    }
  }
  const auto short_of = shortcomings(result);
  for (const std::string& what : short_of)
    fmt::print("  - {}\n", what);
  if (!is_valid(result)) {
    fmt::print("invalid: the machine was only {:.0f} % idle in a measured phase\n",
               result.idle_percent);
    return kInvalid;
  }
  fmt::print("{}\n", short_of.empty()
                         ? "heddle kept what its plans promised, with a spine less as well."
                         : "failed.");
  return short_of.empty() ? kPassed : kFailed;
}

int run(int argc, char** argv) {
  int status = kPassed;
  const auto options = parse(argc, argv, status);
  if (!options)
    return status;
  if (::geteuid() != 0) {
    fmt::print(stderr, "heddle-demo: namespaces and routes need root\n");
    return kFailed;
  }
  if (!is_alone()) {
    fmt::print(stderr, "heddle-demo: another heddle-demo is running\n");
    return kFailed;
  }
  tear_down_when_interrupted(options->fabric.prefix);
  const auto result = run_demo(*options);
  if (!result) {
    fmt::print(stderr, "heddle-demo: {}\n", result.error().message);
    return kFailed;
  }
  return judge(*options, *result);
}

}  // namespace
}  // namespace heddle::lab

int main(int argc, char** argv) {
  return heddle::lab::run(argc, argv);
}
