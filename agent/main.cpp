// heddle-agent: the map. Every part is made here and is handed only what it may use.
//
// clang-format off
//
//     NetlinkKernel --events-----> +-------+ --reports, acknowledgements--> ZmqClientChannel --> coordinator
//     LinuxHost, LinuxSwitch ----> | Agent | <--plans, heartbeats, switch--
//     EventLoop     --time-------> +-------+ --plan, lease, switch--> FileStore (state and run directory)
//                                      |
//                                      +--pins--> Programmer --routes, rules--> NetlinkKernel
//                                                            --what is ours---> OwnershipFile
//
// clang-format on
// One thread, the event loop's; ZeroMQ keeps a thread for its own I/O. When the daemon ends, its
// pins stay: a restart goes on with them, and lease and guard take them away if there is none.

#include <malloc.h>
#include <sys/random.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "agent/agent.h"
#include "agent/arguments.h"
#include "agent/commands.h"
#include "agent/config.h"
#include "agent/dry_run.h"
#include "agent/file_store.h"
#include "agent/netlink/netlink_kernel.h"
#include "agent/netlink/port_speeds.h"
#include "agent/observe/directory_tree.h"
#include "agent/observe/ethtool_statistics.h"
#include "agent/observe/kprobe_watch.h"
#include "agent/observe/linux_host.h"
#include "agent/observe/linux_switch.h"
#include "agent/observe/lldp_file.h"
#include "agent/observe/psample_source.h"
#include "agent/observe/rdma_socket.h"
#include "agent/observe/tc_bpf_source.h"
#include "agent/probe_command.h"
#include "agent/program/disable_switch.h"
#include "agent/program/enforcer.h"
#include "agent/program/guard.h"
#include "agent/program/lease.h"
#include "agent/program/ownership.h"
#include "agent/record_command.h"
#include "common/runtime/event_loop.h"
#include "common/runtime/log.h"
#include "common/runtime/notify.h"
#include "common/runtime/system_clock.h"
#include "common/transport/keys.h"
#include "common/transport/zmq_channel.h"

namespace heddle {
namespace {

constexpr const char* kSoftware = "heddle-agent " HEDDLE_VERSION;

const char* name_of(Role role) {
  switch (role) {
    case Role::host:
      return "host";
    case Role::leaf:
      return "leaf";
    case Role::spine:
      return "spine";
    case Role::cli:
      break;
  }
  return "command line";
}

Result<void> make_directory(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    const Errc code = error == std::errc::permission_denied ? Errc::permission : Errc::io;
    return fail(code, path.string() + ": " + error.message());
  }
  return {};
}

OwnershipFile ownership_of(const AgentConfig& config, const std::string& boot_id) {
  return OwnershipFile(config.state_dir.string(), boot_id);
}

NetlinkKernel::Options kernel_options(const AgentConfig& config) {
  return {.ranges = config.routing,
          .marks = config.enforcer == Enforcer::flow_marks,
          .segments = config.enforcer == Enforcer::srv6};
}

Result<ClientOptions> client_options(const AgentConfig& config) {
  ClientOptions options{.endpoint = config.endpoint,
                        .keys = std::nullopt,
                        .server_key = std::nullopt,
                        .allow_plain = config.plain};
  if (config.plain)
    return options;
  Result<KeyPair> keys = load_keys(config.key);
  if (!keys)
    return tl::unexpected(keys.error());
  Result<std::string> server_key = load_public_key(config.coordinator_key);
  if (!server_key)
    return tl::unexpected(server_key.error());
  options.keys = *std::move(keys);
  options.server_key = *std::move(server_key);
  return options;
}

std::uint64_t draw_instance() {
  std::uint64_t instance = 0;
  while (getrandom(&instance, sizeof(instance), 0) != sizeof(instance)) {
  }
  return instance;
}

// A file that is wrong changes nothing; what cannot change while we run is named.
void reload(const std::filesystem::path& file, const AgentConfig& running, Agent& agent) {
  const Result<AgentConfig> next = load_agent_config(file);
  if (!next) {
    log_error("the configuration stays as it was: {}", next.error().message);
    return;
  }
  agent.reconfigure(*next);
  set_log_level(next->log_level);
  std::string waiting;
  for (const std::string& key : needs_restart(running, *next))
    waiting += (waiting.empty() ? "" : ", ") + key;
  log_info("the configuration was read again{}{}",
           waiting.empty() ? "" : "; these wait for a restart: ", waiting);
}

int run(const AgentConfig& config, const std::filesystem::path& file, const std::string& boot_id) {
  // ZeroMQ's threads would get heaps of their own, which cost more than they hold.
  mallopt(M_ARENA_MAX, 1);
  for (const std::filesystem::path& directory : {config.state_dir, config.run_dir}) {
    if (const Result<void> made = make_directory(directory); !made)
      return explain(made.error());
  }
  const Result<AgentLock> lock = AgentLock::take(config.run_dir.string());
  if (!lock)
    return explain(lock.error());

  Result<std::unique_ptr<EventLoop>> loop = EventLoop::create();
  if (!loop)
    return explain(loop.error());
  EventLoop& events = **loop;
  // Before any thread is started: threads inherit what is blocked.
  const Result<EventSource> terminate = events.on_signal(SIGTERM, [&] { events.stop(); });
  const Result<EventSource> interrupt = events.on_signal(SIGINT, [&] { events.stop(); });
  if (!terminate || !interrupt)
    return explain((terminate ? interrupt : terminate).error());

  std::function<void()> read_again = [] {};  // until there is an agent to tell
  const Result<EventSource> hang_up = events.on_signal(SIGHUP, [&] { read_again(); });
  if (!hang_up)
    return explain(hang_up.error());

  const SystemClock clock;
  FileStore store(config.state_dir, config.run_dir, boot_id);
  OwnershipFile ownership = ownership_of(config, boot_id);
  // One of the two, by what this machine is.
  std::unique_ptr<LinuxHost> host;
  std::unique_ptr<LinuxSwitch> leaf;
  if (config.role == Role::host)
    host = std::make_unique<LinuxHost>(config.watched_ports(), clock);
  else
    leaf = std::make_unique<LinuxSwitch>(config.uplinks, config.host_ports);
  FlowSource& flows = host ? static_cast<FlowSource&>(*host) : *leaf;
  LldpFile cables(config.lldp);
  Result<std::unique_ptr<NetlinkKernel>> kernel = NetlinkKernel::open(kernel_options(config));
  if (!kernel)
    return explain(kernel.error());
  PortSpeeds ports(**kernel, clock);
  Result<ClientOptions> options = client_options(config);
  if (!options)
    return explain(options.error());
  Result<std::unique_ptr<ZmqClientChannel>> channel =
      ZmqClientChannel::connect(events, *std::move(options));
  if (!channel)
    return explain(channel.error());

  Agent agent(config, {.software = kSoftware, .boot_id = boot_id, .instance = draw_instance()},
              {.kernel = **kernel,
               .ports = ports,
               .ownership = ownership,
               .flows = flows,
               .store = store,
               .channel = **channel,
               .clock = clock,
               .cables = &cables});

  read_again = [&] { reload(file, config, agent); };

  // Every event ends in a step, which does what is due and says when to come again.
  EventSource timer;
  std::string status;
  Time status_due;
  const std::function<void()> step = [&] {
    agent.step();
    timer = events.at(agent.next_deadline(), step);
    // For people, so not with every event; reports keep steps coming.
    if (clock.now() < status_due)
      return;
    status_due = clock.now() + std::chrono::seconds{1};
    if (std::string now = agent.describe(); now != status) {
      status = std::move(now);
      notify_status(status);
    }
  };
  (*kernel)->on_event([&](const KernelEvent& event) { agent.kernel_changed(event); });
  (*channel)->on_message([&](Payload payload) {
    agent.received(payload);
    step();
  });
  (*channel)->on_connection([&](bool connected, const std::string& reason) {
    agent.connection_changed(connected, reason);
    step();
  });
  if (const Result<void> started = agent.start(); !started)
    return explain(started.error());
  const Result<EventSource> notifications = events.on_readable((*kernel)->fd(), [&] {
    (*kernel)->ready();
    step();
  });
  if (!notifications)
    return explain(notifications.error());
  // Samples come faster than reports and wait in a buffer that is soon full.
  Result<EventSource> samples{EventSource{}};
  if (leaf && leaf->fd() >= 0)
    samples = events.on_readable(leaf->fd(), [&] { leaf->ready(clock.now()); });
  if (!samples)
    return explain(samples.error());
  const Result<EventSource> switch_watch =
      events.on_change(config.state_dir, [&](std::string_view) {
        agent.switch_turned();
        step();
      });
  if (!switch_watch)
    return explain(switch_watch.error());
  // The lease is renewed here all the time; no name: notifications were lost.
  const Result<EventSource> volatile_switch_watch =
      events.on_change(config.run_dir, [&](std::string_view name) {
        if (!name.empty() && name != DisableSwitch::kFile)
          return;
        agent.switch_turned();
        step();
      });
  if (!volatile_switch_watch)
    return explain(volatile_switch_watch.error());
  if (const Result<bool> watchdog = events.enable_watchdog(); !watchdog)
    log_warning("no watchdog: {}", watchdog.error().message);

  malloc_trim(0);  // what reading the configuration and loading the kernel program left behind
  log_info("{} of {} \"{}\" {}", kSoftware, name_of(config.role), config.node,
           config.mode == Mode::program ? "programs" : "only observes");
  step();
  notify_ready(status);
  const Result<void> ended = events.run();
  notify_stopping();
  log_info("ends; its pins stay until the lease is over");
  return ended ? kOk : explain(ended.error());
}

int watch_guard(RouteKernel& kernel, OwnershipStore& ownership, const AgentConfig& config,
                const std::string& boot_id) {
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::create();
  if (!loop)
    return explain(loop.error());
  EventLoop& events = **loop;
  const Result<EventSource> terminate = events.on_signal(SIGTERM, [&] { events.stop(); });
  const Result<EventSource> interrupt = events.on_signal(SIGINT, [&] { events.stop(); });
  if (!terminate || !interrupt)
    return explain((terminate ? interrupt : terminate).error());
  if (const Result<bool> watchdog = events.enable_watchdog(); !watchdog)
    log_warning("no watchdog: {}", watchdog.error().message);

  constexpr Duration kAfterFailure = std::chrono::seconds{1};
  const SystemClock clock;
  EventSource timer;
  const std::function<void()> look = [&] {
    const Time now = clock.now();
    Time next = now + kAfterFailure;
    // A failure has been explained; pins that should go are worth another try.
    guard_command(kernel, ownership, config, boot_id, TcBpfSource::remove_left_behind, now, next);
    std::fflush(stdout);
    timer = events.at(std::max(next, now + std::chrono::milliseconds{100}), look);
  };
  look();
  notify_ready("guards the lease");
  const Result<void> ended = events.run();
  notify_stopping();
  return ended ? kOk : explain(ended.error());
}

// Of whatever machine this is: without a configuration.
int record(const Arguments& arguments) {
  RdmaSocket rdma;
  const DirectoryTree files("/sys/class/infiniband");
  const EthtoolStatistics statistics;
  KprobeWatch connections;
  PsampleSource samples({}, {});
  const SystemClock clock;
  if (const SourceCapability able = samples.probe().front(); !able.usable)
    std::printf("packets are not sampled: %s\n", able.reason.c_str());
  return record_command(
      arguments.folder, arguments.length,
      {.rdma = rdma,
       .files = files,
       .statistics = statistics,
       .connections = connections,
       .record_samples = [&](SampleTap tap) { samples.record_to(std::move(tap)); },
       .drain_samples = [&](Time now) { samples.ready(now); },
       .clock = clock});
}

EnforcerCapability probe_enforcer(const AgentConfig& config, OwnershipStore& ownership,
                                  const Clock& clock) {
  const Result<std::unique_ptr<NetlinkKernel>> kernel = NetlinkKernel::open(kernel_options(config));
  Result<EnforcerCapability> able =
      kernel ? probe_enforcer(**kernel, ownership, config, clock)
             : Result<EnforcerCapability>(tl::unexpected(kernel.error()));
  if (able)
    return *std::move(able);
  return {.name = name_of(config.enforcer),
          .granularity = granularity_of(config.enforcer),
          .usable = false,
          .reason = able.error().message};
}

// Of whatever machine this is: with its configuration, where it has one.
int probe(const Arguments& arguments, const std::string& boot_id) {
  ProbeFacts facts{.configuration_error = {},
                   .role = {},
                   .uplinks = {"*"},
                   .host_ports = {"*"},
                   .sources = {},
                   .enforcers = {},
                   .programs = false,
                   .routing = {},
                   .routing_error = {},
                   .machine = read_machine(DirectoryTree("/"))};
  AgentConfig config;
  std::error_code absent;
  const bool is_default = arguments.config == kDefaultConfig;
  if (!is_default || std::filesystem::exists(arguments.config, absent)) {
    if (Result<AgentConfig> loaded = load_agent_config(arguments.config)) {
      config = *std::move(loaded);
      facts.role = config.role;
      facts.uplinks = config.uplinks;
      facts.host_ports = config.host_ports;
    } else {
      facts.configuration_error = loaded.error().message;
    }
  }

  const SystemClock clock;
  if (facts.role && facts.role != Role::host) {
    facts.sources = LinuxSwitch::check(facts.uplinks, facts.host_ports);
  } else {
    facts.sources = LinuxHost::check(facts.role ? config.watched_ports() : facts.uplinks, clock);
    facts.sources.push_back(PsampleSource(facts.uplinks, facts.host_ports).probe().front());
  }
  facts.sources.push_back(LldpFile(config.lldp).probe(clock.wall()));

  const Result<std::unique_ptr<NetlinkKernel>> kernel = NetlinkKernel::open(kernel_options(config));
  if (!kernel) {
    facts.routing_error = kernel.error().message;
  } else if (Result<KernelState> state = (*kernel)->read()) {
    facts.routing = *std::move(state);
  } else {
    facts.routing_error = state.error().message;
  }
  if (facts.role && facts.routing) {
    OwnershipFile ownership = ownership_of(config, boot_id);
    facts.programs = config.mode == Mode::program;
    for (const Enforcer enforcer : enforcers_of(config.role)) {
      AgentConfig as_if = config;
      as_if.enforcer = enforcer;
      const auto place =
          enforcer == config.enforcer ? facts.enforcers.begin() : facts.enforcers.end();
      facts.enforcers.insert(place, probe_enforcer(as_if, ownership, clock));
    }
  }
  return print_probe(facts, arguments.json);
}

int execute(const Arguments& arguments) {
  const std::string& command = arguments.command;
  if (command == "record")
    return record(arguments);
  const Result<std::string> boot_id = current_boot_id();
  if (!boot_id)
    return explain(boot_id.error());
  if (command == "probe" && !arguments.check_config)
    return probe(arguments, *boot_id);
  Result<AgentConfig> config = load_agent_config(arguments.config);
  const bool only_removes = command == "guard" || command == "flush" || command == "disable";
  if (!config && only_removes && !arguments.check_config)
    config = config_by_record(config.error(), *boot_id);
  if (!config) {
    std::fprintf(stderr, "%s\n", config.error().message.c_str());
    return kBadConfig;
  }
  if (arguments.check_config) {
    std::printf("%s is good\n", arguments.config.c_str());
    return kOk;
  }
  set_log_level(config->log_level);
  if (command == "run")
    return run(*config, arguments.config, *boot_id);
  if (command == "enable")
    return enable_command(*config);

  const Result<std::unique_ptr<NetlinkKernel>> kernel =
      NetlinkKernel::open(kernel_options(*config));
  if (!kernel)
    return explain(kernel.error());
  OwnershipFile ownership = ownership_of(*config, *boot_id);
  const SystemClock clock;
  if (command == "reconcile")
    return reconcile_command(**kernel, ownership, *config, *boot_id, clock, arguments.json);
  if (command == "guard" && arguments.watch)
    return watch_guard(**kernel, ownership, *config, *boot_id);
  if (command == "guard") {
    Time next;
    return guard_command(**kernel, ownership, *config, *boot_id, TcBpfSource::remove_left_behind,
                         clock.now(), next);
  }
  for (const std::filesystem::path& directory : {config->state_dir, config->run_dir}) {
    if (const Result<void> made = make_directory(directory); !made)
      return explain(made.error());
  }
  return command == "flush"
             ? flush_command(**kernel, ownership, *config, TcBpfSource::remove_left_behind)
             : disable_command(**kernel, ownership, *config);
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  const heddle::Parsed parsed = heddle::parse(argc, argv, heddle::kSoftware);
  return parsed.exit ? *parsed.exit : heddle::execute(parsed.arguments);
}
