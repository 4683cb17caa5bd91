// heddle-coordinator: the map. It makes every part and hands each only what it may use.
//
// clang-format off
//
//     fabric.yaml, jobs.yaml ---> Topology, jobs ---> +-------------+ ---> ChannelPort --encode--> +------------------+
//     state_dir/epoch, operator <-> FileStateStore -> | Coordinator |                              | ZmqServerChannel | <-> agents,
//     state_dir/history <-> RocksDbHistory ---------> |             | <------------------decode--- +------------------+     command lines
//     state_dir/audit.log <-- FileAuditLog <--------- |             |
//     SystemClock, Optimiser -----------------------> +-------------+
//                                                           ^
//     EventLoop --timer: step()-----------------------------+
//
// clang-format on
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>

#include "common/core/optimiser.h"
#include "common/runtime/event_loop.h"
#include "common/runtime/log.h"
#include "common/runtime/notify.h"
#include "common/runtime/system_clock.h"
#include "common/transport/keys.h"
#include "common/transport/zmq_channel.h"
#include "common/wire/codec.h"
#include "coordinator/channel_port.h"
#include "coordinator/config.h"
#include "coordinator/coordinator.h"
#include "coordinator/file_audit_log.h"
#include "coordinator/history/rocksdb_history.h"
#include "coordinator/import/fabric_file.h"
#include "coordinator/loop_executor.h"

namespace heddle {
namespace {

// Exit codes, as in the manual page.
enum Exit : int { done = 0, failed = 1, usage = 2, bad_config = 3, cannot_listen = 4 };

constexpr const char* kHelp =
    R"(Usage: heddle-coordinator [--config FILE] [--check-config] [--version] [--help]

Plans the paths of training traffic and tells the agents. It runs until it is told to stop.

  --config FILE   the configuration (default: /etc/heddle/coordinator.yaml)
  --check-config  read the configuration, the fabric and the job file, say what is wrong, and end
  --version       print the version and end
  --help          print this and end

Exit codes: 0 ended as told, 1 failed, 2 wrong usage, 3 wrong configuration, 4 cannot listen.
)";

struct Arguments {
  std::filesystem::path config{"/etc/heddle/coordinator.yaml"};
  bool check{};
  std::optional<int> exit;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help") {
      std::cout << kHelp;
      arguments.exit = Exit::done;
    } else if (word == "--version") {
      std::cout << "heddle-coordinator " HEDDLE_VERSION "\n";
      arguments.exit = Exit::done;
    } else if (word == "--check-config") {
      arguments.check = true;
    } else if (word == "--config" && i + 1 < argc) {
      arguments.config = argv[++i];
    } else {
      std::cerr << fmt::format("heddle-coordinator: '{}' is not understood\n\n{}", word, kHelp);
      arguments.exit = Exit::usage;
    }
    if (arguments.exit)
      break;
  }
  return arguments;
}

struct Inputs {
  std::filesystem::path file;  // of the configuration
  CoordinatorConfig config;
  std::string fabric;  // the fabric file's text, to tell whether it changed
  Topology topology;
  std::vector<JobDeclaration> jobs;
};

// Everything that an operator wrote, with everything that is wrong about it.
Result<Inputs> load(const std::filesystem::path& file) {
  Result<CoordinatorConfig> config = load_coordinator_config(file);
  if (!config)
    return tl::unexpected(config.error());
  tl::expected<Topology, Mistakes> topology = load_fabric(config->fabric.string());
  if (!topology)
    return fail(Errc::parse, describe(config->fabric.string(), topology.error()));
  std::vector<JobDeclaration> jobs;
  if (!config->jobs.empty()) {
    auto loaded = load_jobs(config->jobs.string(), *topology);
    if (!loaded)
      return fail(Errc::parse, describe(config->jobs.string(), loaded.error()));
    jobs = std::move(*loaded);
  }
  std::ifstream text(config->fabric, std::ios::binary);
  std::string fabric{std::istreambuf_iterator<char>(text), std::istreambuf_iterator<char>()};
  return Inputs{file, std::move(*config), std::move(fabric), std::move(*topology), std::move(jobs)};
}

CoordinatorSettings settings_of(const CoordinatorConfig& config) {
  CoordinatorSettings settings;
  settings.flows = {.elephant_rate = config.elephant_rate,
                    .elephant_message = config.elephant_message,
                    .memory = config.flow_memory};
  settings.decide = config.decide;
  settings.rollout = config.rollout;
  settings.never_touch = config.never_touch;
  settings.drained_below = config.drained_below;
  settings.broadcast.report_interval = config.report_interval;
  settings.broadcast.lease = config.lease;
  settings.period = config.period;
  settings.software = HEDDLE_VERSION;
  return settings;
}

void write(const Notice& notice) {
  const LogLevel level = notice.level == Notice::Level::error     ? LogLevel::error
                         : notice.level == Notice::Level::warning ? LogLevel::warning
                                                                  : LogLevel::info;
  write_log(level, notice.text);
}

// Two coordinators on one state folder would share an epoch.
Result<int> lock_folder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "lock";
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0)
    return fail(Errc::io, fmt::format("{}: {}", file.string(), std::strerror(errno)));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    return fail(
        Errc::duplicate,
        fmt::format("{} is held: another coordinator runs on this state folder", file.string()));
  }
  return fd;
}

// Keys that came and went are on record with what they may do; those whose role is only guessed are
// named, as a node that leaves the fabric would leave an operator's key behind.
void follow_keys(ZmqServerChannel& channel, const std::filesystem::path& folder,
                 Coordinator& coordinator) {
  channel.on_keys([&coordinator, folder, known = std::map<std::string, KeyOwner>(),
                   first = true](const AuthorisedKeys& keys) mutable {
    std::string guessed;
    std::map<std::string, KeyOwner> now(keys.owners.begin(), keys.owners.end());
    for (const auto& [key, owner] : now) {
      const auto before = known.find(key);
      if (!first && (before == known.end() || before->second != owner))
        coordinator.access().keys_changed(owner.name, owner.role, "authorised");
      if (owner.role == KeyRole::unstated && !coordinator.broadcast().is_node(owner.name))
        guessed += (guessed.empty() ? "" : ", ") + owner.name;
    }
    for (const auto& [key, owner] : known)
      if (const auto still = now.find(key); still == now.end() || still->second != owner)
        coordinator.access().keys_changed(owner.name, owner.role, "revoked");
    if (!guessed.empty())
      log_warning(
          "{}: these keys are of no node of the fabric and may give every command: {}; say what "
          "they may do with 'heddle key add --role'",
          folder.string(), guessed);
    known = std::move(now);
    first = false;
  });
  channel.on_refusal([&coordinator](const ZmqServerChannel::Refused& refused) {
    coordinator.access().turned_away(refused.key, KeyRole::unstated, "connect", refused.address,
                                     refused.reason);
  });
}

// A file that is wrong changes nothing; what cannot change while we run is named.
void reload(const Inputs& running, Coordinator& coordinator) {
  const Result<Inputs> next = load(running.file);
  if (!next) {
    log_error("the configuration stays as it was: {}", next.error().message);
    return;
  }
  coordinator.reconfigure(settings_of(next->config), next->jobs);
  if (const auto level = parse_log_level(next->config.log_level))
    set_log_level(*level);
  std::vector<std::string> keys = needs_restart(running.config, next->config);
  if (keys.empty() && next->fabric != running.fabric)
    keys.push_back(running.config.fabric.string());
  std::string waiting;
  for (const std::string& key : keys)
    waiting += (waiting.empty() ? "" : ", ") + key;
  log_info("the configuration was read again{}{}",
           waiting.empty() ? "" : "; these wait for a restart: ", waiting);
}

int run(const Inputs& inputs) {
  const CoordinatorConfig& config = inputs.config;
  const auto stop_with = [](Exit code, const Error& error) {
    log_error("{}", error.message);
    return static_cast<int>(code);
  };

  Result<std::unique_ptr<EventLoop>> loop = EventLoop::create();
  if (!loop)
    return stop_with(Exit::failed, loop.error());
  EventLoop& events = **loop;
  // Before any thread is started, so that all block them.
  std::vector<EventSource> signals;
  for (const int number : {SIGTERM, SIGINT}) {
    Result<EventSource> source = events.on_signal(number, [&events] { events.stop(); });
    if (!source)
      return stop_with(Exit::failed, source.error());
    signals.push_back(std::move(*source));
  }

  std::function<void()> read_again = [] {};  // until there is a coordinator to tell
  Result<EventSource> hang_up = events.on_signal(SIGHUP, [&read_again] { read_again(); });
  if (!hang_up)
    return stop_with(Exit::failed, hang_up.error());
  signals.push_back(std::move(*hang_up));

  Result<FileStateStore> store = FileStateStore::open(config.state_dir);
  if (!store)
    return stop_with(Exit::failed, store.error());
  const Result<int> lock = lock_folder(config.state_dir);
  if (!lock)
    return stop_with(Exit::failed, lock.error());
  Result<OperatorState> operators = store->load_operator_state();
  if (!operators)
    return stop_with(Exit::failed, operators.error());
  Result<RolloutState> rollout = store->load_rollout();
  if (!rollout)
    return stop_with(Exit::failed, rollout.error());

  // The socket comes before the epoch: a start that cannot listen must not use one up.
  ServerOptions options{.endpoint = config.listen,
                        .keys = std::nullopt,
                        .authorised_keys = config.authorised_keys,
                        .allow_plain = config.plain};
  if (!config.plain) {
    Result<KeyPair> keys = load_keys(config.key);
    if (!keys)
      return stop_with(Exit::failed, keys.error());
    options.keys = std::move(*keys);
  }
  Result<std::unique_ptr<ZmqServerChannel>> channel = ZmqServerChannel::listen(events, options);
  if (!channel)
    return stop_with(Exit::cannot_listen, channel.error());

  Result<Reign> reign = Reign::begin(*store);
  if (!reign)
    return stop_with(Exit::failed, reign.error());
  Result<std::unique_ptr<LoopExecutor>> executor = LoopExecutor::create(events);
  if (!executor)
    return stop_with(Exit::failed, executor.error());
  RocksDbHistory history({.folder = config.state_dir / "history", .retention = config.history},
                         [&](std::function<void()> work) { (*executor)->post(std::move(work)); });
  const std::unique_ptr<Optimiser> optimiser = make_optimiser(config.optimiser);
  const SystemClock clock;
  ChannelPort port(**channel);
  FileAuditLog audit(config.state_dir / "audit.log", write);
  Coordinator coordinator(settings_of(config),
                          {.topology = inputs.topology,
                           .optimiser = *optimiser,
                           .reign = *reign,
                           .port = port,
                           .history = history,
                           .store = *store,
                           .audit = audit,
                           .clock = clock,
                           .log = write},
                          inputs.jobs, std::move(*operators));
  coordinator.take_up(std::move(*rollout));
  if (!config.plain)
    follow_keys(**channel, config.authorised_keys, coordinator);
  if (Result<PlanRecord> last = history.last_plan(std::chrono::seconds(5)))
    coordinator.restore(*last);
  else if (last.error().code != Errc::not_found)
    log_warning("the last plan is not known, agents keep theirs until the first new one: {}",
                last.error().message);

  EventSource timer;
  std::function<void()> arm = [&] {
    timer = events.at(coordinator.next_deadline(), [&] {
      coordinator.step();
      arm();
    });
  };
  (*channel)->on_message([&](const Peer& peer, Payload payload) {
    Result<Envelope> envelope = decode(payload);
    if (!envelope) {
      log_warning("a message from {} was not understood: {}",
                  peer.name.empty() ? "somebody" : peer.name, envelope.error().message);
      return;
    }
    const Sender sender = port.know(peer, envelope->node);
    coordinator.received(sender, *envelope);
    arm();
  });
  arm();
  read_again = [&] {
    reload(inputs, coordinator);
    arm();
  };

  const Result<bool> watchdog = events.enable_watchdog();
  if (!watchdog)
    return stop_with(Exit::failed, watchdog.error());
  const EventSource status =
      events.every(std::chrono::seconds(10), [&] { notify_status(coordinator.describe()); });
  log_info("heddle-coordinator {} listens on {}: epoch {}, {} leaves, {} spines, {} hosts, {}",
           HEDDLE_VERSION, (*channel)->endpoint(), reign->version().epoch,
           inputs.topology.leaves().size(), inputs.topology.spines().size(),
           inputs.topology.hosts().size(), config.optimiser);
  notify_ready(coordinator.describe());
  const Result<void> ran = events.run();
  notify_stopping();
  if (!ran)
    return stop_with(Exit::failed, ran.error());
  // The agents keep their pins: whoever comes next takes over, and their leases run.
  log_info("heddle-coordinator ends");
  return Exit::done;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  const heddle::Arguments arguments = heddle::parse(argc, argv);
  if (arguments.exit)
    return *arguments.exit;
  heddle::Result<heddle::Inputs> inputs = heddle::load(arguments.config);
  if (!inputs) {
    std::cerr << inputs.error().message << "\n";
    return heddle::Exit::bad_config;
  }
  if (arguments.check) {
    std::cout << fmt::format("{}: good; {} leaves, {} spines, {} hosts, {} jobs\n",
                             arguments.config.string(), inputs->topology.leaves().size(),
                             inputs->topology.spines().size(), inputs->topology.hosts().size(),
                             inputs->jobs.size());
    return heddle::Exit::done;
  }
  if (const auto level = heddle::parse_log_level(inputs->config.log_level))
    heddle::set_log_level(*level);
  return heddle::run(*inputs);
}
