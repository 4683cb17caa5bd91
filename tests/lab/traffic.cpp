#include "tests/lab/traffic.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <random>

#include "common/core/check.h"
#include "tests/lab/routing.h"
#include "tests/lab/traffic_parts.h"

namespace heddle::lab {

using namespace std::chrono_literals;

Traffic::Traffic() = default;

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
    each->flows.clear();
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
      for (int share = 0; share < each->spec.queue_pairs; ++share) {
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
                 .owed = {},
                 .received = 0,
                 .acknowledged = 0});
        pair->source_qpn = free_qpn(*pair->source);
        pair->source->by_qpn[pair->source_qpn] = pair.get();
        pair->dest_qpn = free_qpn(*pair->destination);
        pair->destination->by_qpn[pair->dest_qpn] = pair.get();
        pair->source_port = source_port_of(pair->source_qpn, pair->dest_qpn);
        for (Host* end : {pair->source, pair->destination})
          if (auto used = end->port->use_source_port(pair->source_port); !used)
            return used;
        each->flows[ranks].pairs.push_back(pair.get());
        pairs_.push_back(std::move(pair));
      }
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

std::vector<FlowOutage> Traffic::probe_outages(Time from, Time to) {
  return call([&] {
    std::vector<FlowOutage> outages;
    for (const auto& probe : probes_)
      if (const auto outage = probe->log.outage(from, to))
        outages.push_back({*outage, probe->source->name});
    return outages;
  });
}

}  // namespace heddle::lab
