#include "tests/lab/traffic.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <unordered_map>

#include "common/core/check.h"
#include "tests/lab/routing.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t kProbePort = 4790;

struct ProbePacket {
  std::uint64_t flow{};
  std::uint64_t number{};
};

enum class Watch : std::uint64_t { wake, roce, probe };

std::uint64_t watch_data(Watch what, std::size_t host) {
  return static_cast<std::uint64_t>(what) << 32 | host;
}

}  // namespace

// A queue pair, both its ends: they are in one process.
struct Traffic::Pair {
  Job* job{};
  Transfer ranks;
  Host* source{};
  Host* destination{};
  std::uint16_t source_port{};
  std::uint32_t source_qpn{};
  std::uint32_t dest_qpn{};
  Sender sender;
  Receiver receiver;
  std::optional<Receiver::Answer> owed;
};

struct Traffic::Host {
  std::string name;
  IpAddress address;
  std::unique_ptr<RocePort> port;
  int probe_fd{-1};
  std::unordered_map<std::uint32_t, Pair*>
      by_qpn;  // both those it sends on and those it receives on

  ~Host() {
    if (probe_fd >= 0)
      ::close(probe_fd);
  }
};

struct Traffic::Job {
  JobSpec spec;
  std::vector<Host*> hosts;  // by rank
  std::unique_ptr<Collective> collective;
  std::map<Transfer, Pair*> pairs;
  std::vector<Iteration> iterations;
  bool repeat{};
  std::optional<Time> iteration_begin;  // one is under way
  std::optional<Time> next_begin;       // computing
};

struct Traffic::Probe {
  Host* source{};
  Host* destination{};
  ProbeLog log;
};

Traffic::Traffic() = default;

template <class Body>
auto Traffic::call(Body&& body) -> std::invoke_result_t<Body> {
  std::packaged_task<std::invoke_result_t<Body>()> task(std::forward<Body>(body));
  auto result = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    commands_.emplace_back([&task] { task(); });
  }
  const std::uint64_t one = 1;
  HEDDLE_CHECK(::write(wake_, &one, sizeof(one)) == sizeof(one));
  return result.get();
}

Result<std::unique_ptr<Traffic>> Traffic::start(const std::vector<TrafficHost>& hosts) {
  std::unique_ptr<Traffic> traffic(new Traffic());
  traffic->epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  traffic->wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const auto watch = [&](int fd, std::uint64_t data) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = data;
    HEDDLE_CHECK(::epoll_ctl(traffic->epoll_, EPOLL_CTL_ADD, fd, &event) == 0);
  };
  watch(traffic->wake_, watch_data(Watch::wake, 0));
  for (const TrafficHost& each : hosts) {
    auto host = std::make_unique<Host>();
    host->name = each.name;
    host->address = each.address;
    auto port = RocePort::open(*each.space, each.address);
    if (!port)
      return tl::unexpected(port.error());
    host->port = std::move(*port);
    auto fd = each.space->socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (!fd)
      return tl::unexpected(fd.error());
    host->probe_fd = *fd;
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_port = htons(kProbePort);
    if (::bind(*fd, reinterpret_cast<sockaddr*>(&own), sizeof(own)) != 0)
      return fail(Errc::io, fmt::format("binding the probe of {}", each.name));
    watch(host->port->receive_fd(), watch_data(Watch::roce, traffic->hosts_.size()));
    watch(*fd, watch_data(Watch::probe, traffic->hosts_.size()));
    traffic->hosts_.push_back(std::move(host));
  }
  traffic->thread_ = std::thread([raw = traffic.get()] { raw->loop(); });
  return traffic;
}

Traffic::~Traffic() {
  if (thread_.joinable()) {
    call([this] { stopping_ = true; });
    thread_.join();
  }
  if (epoll_ >= 0)
    ::close(epoll_);
  if (wake_ >= 0)
    ::close(wake_);
}

Traffic::Host* Traffic::find(const std::string& name) {
  const auto found = std::find_if(hosts_.begin(), hosts_.end(),
                                  [&](const auto& host) { return host->name == name; });
  return found == hosts_.end() ? nullptr : found->get();
}

Traffic::Job& Traffic::job(const std::string& name) {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                  [&](const auto& each) { return each->spec.name == name; });
  HEDDLE_CHECK(found != jobs_.end());
  return **found;
}

Result<void> Traffic::add_job(const JobSpec& spec) {
  return call([&]() -> Result<void> {
    auto made = std::make_unique<Job>();
    made->spec = spec;
    for (const std::string& name : spec.hosts) {
      Host* host = find(name);
      if (host == nullptr)
        return fail(Errc::not_found, fmt::format("no host {}", name));
      made->hosts.push_back(host);
    }
    made->collective = make_collective(spec.pattern, static_cast<int>(spec.hosts.size()));
    jobs_.push_back(std::move(made));
    return {};
  });
}

Result<void> Traffic::connect(unsigned seed) {
  return call([&] {
    auto made = make_pairs(seed);
    if (made && probes_.empty())
      make_probes();
    return made;
  });
}

Result<void> Traffic::make_pairs(unsigned seed) {
  for (const auto& each : jobs_) {
    HEDDLE_CHECK(!each->iteration_begin && !each->repeat);
    each->pairs.clear();
  }
  pairs_.clear();
  for (const auto& host : hosts_) {
    host->by_qpn.clear();
    host->port->close_source_ports();
  }
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::uint32_t> number(0x100, kPsnMask);
  const auto free_qpn = [&](const Host& host) {
    while (true)
      if (const std::uint32_t qpn = number(random); !host.by_qpn.contains(qpn))
        return qpn;
  };
  for (const auto& each : jobs_) {
    for (const Transfer& ranks : each->collective->pairs()) {
      auto pair = std::make_unique<Pair>(
          Pair{.job = each.get(),
               .ranks = ranks,
               .source = each->hosts[static_cast<std::size_t>(ranks.from)],
               .destination = each->hosts[static_cast<std::size_t>(ranks.to)],
               .source_port = 0,
               .source_qpn = 0,
               .dest_qpn = 0,
               .sender = Sender(each->spec.window),
               .receiver = {},
               .owed = {}});
      pair->source_qpn = free_qpn(*pair->source);
      pair->source->by_qpn[pair->source_qpn] = pair.get();
      pair->dest_qpn = free_qpn(*pair->destination);
      pair->destination->by_qpn[pair->dest_qpn] = pair.get();
      pair->source_port = source_port_of(pair->source_qpn, pair->dest_qpn);
      for (Host* end : {pair->source, pair->destination})
        if (auto used = end->port->use_source_port(pair->source_port); !used)
          return used;
      each->pairs[ranks] = pair.get();
      pairs_.push_back(std::move(pair));
    }
  }
  return {};
}

void Traffic::make_probes() {
  std::map<std::pair<Host*, Host*>, bool> seen;
  for (const auto& pair : pairs_) {
    if (!seen.emplace(std::pair(pair->source, pair->destination), true).second)
      continue;
    probes_.push_back(std::make_unique<Probe>(
        Probe{.source = pair->source, .destination = pair->destination, .log = {}}));
  }
}

void Traffic::run() {
  call([this] {
    const Time now = boot_now();
    for (const auto& each : jobs_) {
      each->iterations.clear();
      each->repeat = true;
      if (!each->iteration_begin && !each->next_begin)
        start_iteration(*each, now);
    }
  });
}

Result<void> Traffic::finish(Duration patience) {
  call([this] {
    for (const auto& each : jobs_) {
      each->repeat = false;
      each->next_begin.reset();
    }
  });
  return await(
      [this] {
        return std::none_of(jobs_.begin(), jobs_.end(),
                            [](const auto& each) { return each->iteration_begin.has_value(); });
      },
      patience, "the iterations under way");
}

Result<void> Traffic::await_iterations(int count, Time since, Duration patience) {
  return await(
      [this, count, since] {
        return std::all_of(jobs_.begin(), jobs_.end(), [&](const auto& each) {
          const auto& done = each->iterations;
          return std::count_if(done.begin(), done.end(), [&](const Iteration& iteration) {
                   return iteration.begin >= since;
                 }) >= count;
        });
      },
      patience, "iterations");
}

Result<void> Traffic::await(std::function<bool()> condition, Duration patience, const char* what) {
  std::list<Waiter>::iterator waiter;
  std::future<void> held;
  call([&] {
    waiter = waiters_.insert(waiters_.end(), Waiter{std::move(condition), {}});
    held = waiter->held.get_future();
    release_waiters();
  });
  const bool in_time = held.wait_for(patience) == std::future_status::ready;
  if (!in_time) {
    // It may have been released in this very moment.
    const bool released = call([&] {
      if (held.wait_for(0s) == std::future_status::ready)
        return true;
      waiters_.erase(waiter);
      return false;
    });
    if (!released)
      return fail(Errc::timeout, fmt::format("waited in vain for {}", what));
  }
  return {};
}

void Traffic::release_waiters() {
  for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
    if (waiter->condition()) {
      waiter->held.set_value();
      waiter = waiters_.erase(waiter);
    } else {
      ++waiter;
    }
  }
}

std::vector<Iteration> Traffic::iterations(const std::string& name) {
  return call([&] { return job(name).iterations; });
}

Duration Traffic::under_way(const std::string& name) {
  return call([&] {
    const auto& begin = job(name).iteration_begin;
    return begin ? boot_now() - *begin : Duration::zero();
  });
}

std::vector<PairReport> Traffic::pairs() {
  return call([this] {
    std::vector<PairReport> reports;
    for (const auto& pair : pairs_)
      reports.push_back({.job = pair->job->spec.name,
                         .source = pair->source->name,
                         .destination = pair->destination->name,
                         .source_port = pair->source_port,
                         .dest_qpn = pair->dest_qpn,
                         .sender = pair->sender.counters(),
                         .receiver = pair->receiver.counters()});
    return reports;
  });
}

std::vector<HostReport> Traffic::hosts() {
  return call([this] {
    std::vector<HostReport> reports;
    for (const auto& host : hosts_) {
      HostReport report;
      report.name = host->name;
      report.icrc = host->port->icrc();
      for (const auto& pair : pairs_) {
        if (pair->source == host.get()) {
          report.transmitted += pair->sender.counters().transmitted;
          report.retransmitted += pair->sender.counters().retransmitted;
          report.timeouts += pair->sender.counters().timeouts;
        }
        if (pair->destination == host.get()) {
          report.lost += pair->receiver.missing(pair->sender.counters().transmitted);
          report.reordered += pair->receiver.counters().reordered;
        }
      }
      reports.push_back(std::move(report));
    }
    return reports;
  });
}

void Traffic::probe(int per_second) {
  call([this, per_second] {
    probe_interval_ = Duration::zero();
    if (per_second <= 0 || probes_.empty())
      return;
    // Spread over the interval, so that probes do not queue behind each other.
    probe_interval_ = Duration(1s) / per_second / static_cast<int>(probes_.size());
    next_probe_ = boot_now();
  });
}

ProbeCounts Traffic::probes_between(Time from, Time to) {
  return call([&] {
    ProbeCounts sum;
    for (const auto& probe : probes_)
      sum += probe->log.between(from, to);
    return sum;
  });
}

Duration Traffic::probe_outage(Time event, Time until) {
  return call([&] {
    Duration longest{};
    for (const auto& probe : probes_)
      longest = std::max(longest, probe->log.outage(event, until));
    return longest;
  });
}

// This thread stands for the hosts' network cards, which nobody has to wait for. On one processor
// the kernel also passes the packets on in the order they were sent; spread over two it swaps some
// of its own accord.
static void act_as_hardware() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sysconf(_SC_NPROCESSORS_ONLN) - 1), &one);
  ::sched_setaffinity(0, sizeof(one), &one);
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), -10);
}

void Traffic::loop() {
  act_as_hardware();
  std::array<epoll_event, 64> events;
  while (!stopping_) {
    const Duration left = std::max(Duration::zero(), next_deadline() - boot_now());
    timespec wait{};
    wait.tv_sec = left / 1s;
    wait.tv_nsec = (left % 1s).count();
    const int ready = ::epoll_pwait2(epoll_, events.data(), events.size(), &wait, nullptr);
    for (int i = 0; i < ready; ++i) {
      const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
      const auto at = static_cast<std::size_t>(data & 0xffffffff);
      switch (static_cast<Watch>(data >> 32)) {
        case Watch::wake:
          run_commands();
          break;
        case Watch::roce:
          receive_roce(*hosts_[at]);
          break;
        case Watch::probe:
          receive_probes(*hosts_[at]);
          break;
      }
    }
    answer_all();
    const Time now = boot_now();
    timers(now);
    for (const auto& pair : pairs_)
      pump(*pair, now);
  }
}

void Traffic::run_commands() {
  std::uint64_t count = 0;
  (void)!::read(wake_, &count, sizeof(count));
  std::vector<std::function<void()>> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands)
    command();
}

void Traffic::receive_roce(Host& host) {
  const Time now = boot_now();
  host.port->receive([&](const RocePort::Received& packet) {
    const auto found = host.by_qpn.find(packet.bth.dest_qpn);
    if (found == host.by_qpn.end())
      return;  // of a queue pair that is gone
    Pair& pair = *found->second;
    Job& owner = *pair.job;
    if (packet.bth.opcode == Opcode::acknowledge) {
      const int complete = packet.syndrome == kSyndromeNak
                               ? pair.sender.on_nak(packet.bth.psn, now)
                               : pair.sender.on_ack(packet.bth.psn, now);
      for (int i = 0; i < complete; ++i)
        post(owner, owner.collective->on_acknowledged(pair.ranks));
      if (complete > 0)
        settle(owner, now);
      return;
    }
    const auto answer = pair.receiver.on_packet(packet.bth.opcode, packet.bth.psn,
                                                packet.bth.ack_request, packet.serial);
    // One answer to all that came together: the last acknowledgement says all, a refusal goes
    // beside it.
    if (answer.ack || answer.nak) {
      if (!pair.owed)
        pair.owed.emplace();
      if (answer.ack)
        pair.owed->ack = answer.ack;
      if (answer.nak)
        pair.owed->nak = answer.nak;
    }
    if (answer.message_complete) {
      post(owner, owner.collective->on_received(pair.ranks));
      settle(owner, now);
    }
  });
}

void Traffic::answer_all() {
  for (const auto& pair : pairs_) {
    if (!pair->owed)
      continue;
    const auto send = [&](std::uint32_t psn, std::uint8_t syndrome) {
      pair->destination->port->send_answer(pair->source->address, pair->source_port,
                                           pair->source_qpn, psn, syndrome);
    };
    if (pair->owed->ack)
      send(*pair->owed->ack, kSyndromeAck);
    if (pair->owed->nak)
      send(*pair->owed->nak, kSyndromeNak);
    pair->owed.reset();
  }
}

void Traffic::receive_probes(Host& host) {
  ProbePacket packet;
  while (::recv(host.probe_fd, &packet, sizeof(packet), 0) == sizeof(packet))
    if (packet.flow < probes_.size())
      probes_[packet.flow]->log.on_received(packet.number);
}

void Traffic::post(Job& owner, const std::vector<Transfer>& messages) {
  for (const Transfer& message : messages)
    owner.pairs.at(message)->sender.post(owner.spec.message_bytes);
}

// Ends the iteration if that was its last event.
void Traffic::settle(Job& owner, Time now) {
  if (!owner.iteration_begin || !owner.collective->finished())
    return;
  owner.iterations.push_back({*owner.iteration_begin, now - *owner.iteration_begin});
  owner.iteration_begin.reset();
  if (owner.repeat)
    owner.next_begin = now + owner.spec.compute;
  release_waiters();
}

void Traffic::start_iteration(Job& owner, Time now) {
  owner.next_begin.reset();
  owner.iteration_begin = now;
  post(owner, owner.collective->begin());
}

void Traffic::pump(Pair& pair, Time now) {
  std::array<Segment, 32> segments;
  std::size_t count = 0;
  while (count < segments.size()) {
    const auto segment = pair.sender.next(now);
    if (!segment)
      break;
    segments[count++] = *segment;
  }
  if (count > 0)
    pair.source->port->send(pair.destination->address, pair.source_port, pair.dest_qpn,
                            std::span(segments).first(count));
}

void Traffic::timers(Time now) {
  for (const auto& pair : pairs_)
    if (pair->sender.deadline() && *pair->sender.deadline() <= now)
      pair->sender.on_deadline(now);
  for (const auto& each : jobs_)
    if (each->next_begin && *each->next_begin <= now)
      start_iteration(*each, now);
  while (probe_interval_ > Duration::zero() && next_probe_ <= now) {
    const std::size_t at = next_probe_flow_++ % probes_.size();
    Probe& probe = *probes_[at];
    const ProbePacket packet{.flow = at, .number = probe.log.on_sent(now)};
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(kProbePort);
    std::memcpy(&peer.sin_addr, probe.destination->address.octets.data(), 4);
    // Refused (no route): it was sent and is lost, as it should be counted.
    (void)!::sendto(probe.source->probe_fd, &packet, sizeof(packet), 0,
                    reinterpret_cast<const sockaddr*>(&peer), sizeof(peer));
    next_probe_ += probe_interval_;
  }
}

Time Traffic::next_deadline() const {
  Time next = boot_now() + 1s;
  for (const auto& pair : pairs_)
    if (pair->sender.deadline())
      next = std::min(next, *pair->sender.deadline());
  for (const auto& each : jobs_)
    if (each->next_begin)
      next = std::min(next, *each->next_begin);
  if (probe_interval_ > Duration::zero())
    next = std::min(next, next_probe_);
  return next;
}

}  // namespace heddle::lab
