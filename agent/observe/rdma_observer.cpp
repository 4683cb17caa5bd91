#include "agent/observe/rdma_observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "agent/observe/pauses.h"
#include "agent/observe/rdma_files.h"

namespace heddle {
namespace {

using std::chrono::seconds;

constexpr int kShare = 20;     // of the time, one part in so many
constexpr int kSoonShare = 5;  // where there is something to find
// Asking for what is not there makes the kernel look for modules.
constexpr Duration kAbsentAgain = seconds{30};
// Addresses change without a word from RDMA.
constexpr Duration kAddressesAgain = seconds{30};
// To take back at the end what was set up.
constexpr int kAttempts = 3;

}  // namespace

RdmaObserver::RdmaObserver(RdmaChannel& channel, const FileTree& files,
                           const DriverStatistics& statistics, const Clock& clock, bool bind)
    : channel_(channel), files_(files), statistics_(statistics), clock_(clock), bind_(bind) {
  capability_.name = "rdma";
}

RdmaObserver::~RdmaObserver() {
  undo();
}

SourceCapability RdmaObserver::capability() {
  if (!next_look_)
    look(clock_.now(), {});
  return capability_;
}

const RdmaView& RdmaObserver::look(Time now, std::span<const QpConnection> connections) {
  inventory_.connected(connections);
  // A device that came or went is worth a look at once.
  const Result<std::vector<std::byte>> announced = channel_.announced();
  if (!announced || !announced->empty())
    next_look_.reset();
  // And a queue pair that was connected is worth one soon.
  if (next_look_ && !connections.empty())
    next_look_ = std::min(*next_look_, looked_ + cost_ * kSoonShare);
  if (next_look_ && now < *next_look_)
    return view_;
  // Where there is no device, files tell that without holding RDMA's core.
  if (devices_ == 0U && files_.list("").empty())
    return view_;

  const Time begin = clock_.now();
  const Result<RdmaLook> look = gather(now);
  if (!look) {
    const bool absent = look.error().code == Errc::unsupported;
    capability_ = {"rdma", false, look.error().message};
    view_ = {};
    view_.gap = !absent;
    next_look_ = now + (absent ? kAbsentAgain : Duration::zero());
    return view_;
  }
  view_ = inventory_.update(*look, now);
  if (bind_)
    bind(*look);
  devices_ = look->devices.size();
  if (devices_ == 0U)
    channel_.let_go();
  looked_ = now;
  cost_ = clock_.now() - begin;
  next_look_ = now + cost_ * kShare;
  return view_;
}

// True if the dump came whole.
template <class Take>
bool RdmaObserver::dump(RdmaCommand command, std::optional<std::uint32_t> device, Take take) {
  const Result<std::vector<std::byte>> messages = channel_.exchange(dump_request(command, device));
  if (!messages)
    return false;
  RdmaAnswer answer;
  parse_rdma(*messages, answer);
  take(answer);
  return answer.done && !answer.damaged && !answer.interrupted && answer.error.value_or(0) == 0;
}

Result<RdmaLook> RdmaObserver::gather(Time now) {
  RdmaLook look;
  const Result<std::vector<std::byte>> system = channel_.exchange(system_request());
  if (!system)
    return tl::unexpected(system.error());
  RdmaAnswer answer;
  parse_rdma(*system, answer);
  look.system = answer.system.value_or(RdmaSystem{});

  bool whole = dump(RdmaCommand::device, std::nullopt,
                    [&look](const RdmaAnswer& devices) { look.devices = devices.devices; });
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (RdmaDevice& device : look.devices) {
    device.software = is_software(files_, device.name);
    whole &= dump(RdmaCommand::port, device.index,
                  [&](const RdmaAnswer& a) { append(look.ports, a.ports); });
    whole &= dump(RdmaCommand::queue_pairs, device.index,
                  [&](const RdmaAnswer& a) { append(look.queue_pairs, a.queue_pairs); });
    whole &= dump(RdmaCommand::cm_ids, device.index,
                  [&](const RdmaAnswer& a) { append(look.cm_ids, a.cm_ids); });
    // Kernels and drivers without counters refuse; the queue pairs are there all the same.
    if (!dump(RdmaCommand::stat, device.index,
              [&](const RdmaAnswer& a) { append(look.counters, a.counters); }))
      look.uncounted.push_back(device.index);
  }
  look.incomplete = !whole;
  read_addresses(look, now);
  read_counters(look);

  capability_ = {"rdma", !look.devices.empty(), ""};
  if (look.devices.empty()) {
    capability_.reason =
        look.system.shared
            ? "there is no RDMA device"
            : "no RDMA device is visible: they belong to one network namespace each (\"rdma system "
              "show\"), and those of others are hidden from this one";
  } else if (!whole) {
    capability_.reason = "the kernel's answers were cut off: queue pairs may be missing";
  }
  return look;
}

// RDMA's own counters, and of the Ethernet below it how often it was paused.
void RdmaObserver::read_counters(RdmaLook& look) const {
  for (const RdmaPort& port : look.ports) {
    const auto device = std::ranges::find(look.devices, port.device, &RdmaDevice::index);
    if (device == look.devices.end())
      continue;
    std::vector<CounterValue> counters = read_port_counters(files_, device->name, port.port);
    if (!port.netdev.empty()) {
      if (const auto statistics = statistics_.statistics(port.netdev)) {
        const std::vector<CounterValue> pauses = pause_counters(*statistics);
        counters.insert(counters.end(), pauses.begin(), pauses.end());
        std::ranges::sort(counters, {}, &CounterValue::name);
      }
    }
    look.port_counters.push_back({port.device, port.port, std::move(counters)});
  }
}

void RdmaObserver::read_addresses(RdmaLook& look, Time now) {
  if (look.ports != addresses_of_ || now >= addresses_due_) {
    addresses_.clear();
    for (const RdmaPort& port : look.ports) {
      const auto device = std::ranges::find(look.devices, port.device, &RdmaDevice::index);
      if (device == look.devices.end())
        continue;
      const std::vector<RdmaAddress> own = heddle::read_addresses(files_, *device, port.port);
      addresses_.insert(addresses_.end(), own.begin(), own.end());
    }
    addresses_of_ = look.ports;
    addresses_due_ = now + kAddressesAgain;
  }
  look.addresses = addresses_;
}

// What the kernel made of a request. One that was not answered may have been obeyed.
RdmaObserver::Outcome RdmaObserver::ask(const RdmaRequest& request, RdmaAnswer& answer) {
  const Result<std::vector<std::byte>> messages = channel_.exchange(request);
  if (!messages)
    return Outcome::unknown;
  parse_rdma(*messages, answer);
  if (answer.error.value_or(0) != 0)
    return Outcome::refused;
  return answer.damaged ? Outcome::unknown : Outcome::accepted;
}

// Nothing if it is not known; none where the kernel has nothing to tell.
std::optional<std::vector<OptionalCounter>> RdmaObserver::optional_counters(
    CounterBinder::Port port) {
  RdmaAnswer answer;
  switch (ask(status_request(port.first, port.second), answer)) {
    case Outcome::accepted:
      return answer.optional_counters;
    case Outcome::refused:
      return std::vector<OptionalCounter>{};
    case Outcome::unknown:
      break;
  }
  return std::nullopt;
}

void RdmaObserver::bind(const RdmaLook& look) {
  for (const RdmaPort& port : look.ports) {
    const CounterBinder::Port key{port.device, port.port};
    if (binder_.asked(key))
      continue;
    if (const auto counters = optional_counters(key))
      binder_.offers(key, *counters);
  }
  for (const CounterBinder::Switch& change : binder_.to_switch_on(look)) {
    RdmaAnswer answer;
    switch (ask(optional_request(change.port.first, change.port.second, change.on), answer)) {
      case Outcome::accepted:
        binder_.switched_on(change.port);
        break;
      case Outcome::refused:
        binder_.not_switched(change.port);
        break;
      case Outcome::unknown:
        binder_.perhaps_switched(change.port);
    }
  }
  for (CounterBinder::Binding binding : binder_.to_bind(look)) {
    RdmaAnswer answer;
    const Outcome outcome =
        ask(bind_request(binding.port.first, binding.port.second, binding.qpn), answer);
    if (outcome == Outcome::accepted && answer.bound_counter) {
      binding.counter = *answer.bound_counter;
      binder_.bound(binding);
    } else if (outcome == Outcome::refused) {
      binder_.refused(binding);
    } else {
      binder_.perhaps_bound(binding);
    }
  }
}

void RdmaObserver::undo() {
  // Of what was perhaps bound since the last look, another one tells.
  if (binder_.unsure()) {
    if (const Result<RdmaLook> look = gather(clock_.now()))
      (void)binder_.to_bind(*look);
  }
  for (const CounterBinder::Binding& binding : binder_.ours()) {
    insist(unbind_request(binding.port.first, binding.port.second, binding.qpn, binding.counter));
  }
  for (const CounterBinder::Port& port : binder_.switched()) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      if (const auto now = optional_counters(port)) {
        insist(optional_request(port.first, port.second, binder_.back(port, *now).on));
        break;
      }
    }
  }
}

// There is no later look to find out whether it was obeyed; to be asked twice does no harm.
void RdmaObserver::insist(const RdmaRequest& request) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    RdmaAnswer answer;
    if (ask(request, answer) != Outcome::unknown)
      return;
  }
}

}  // namespace heddle
