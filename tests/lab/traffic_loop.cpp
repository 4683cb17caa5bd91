// The loop: packets, answers, timers.
#include <netinet/in.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/lab/routing.h"
#include "tests/lab/traffic_parts.h"

namespace heddle::lab {
namespace {

using namespace std::chrono_literals;

struct ProbePacket {
  std::uint64_t flow{};
  std::uint64_t number{};
};

// the kernel also passes the packets on in the order they were sent; spread over two it swaps some
// of its own accord.
void act_as_hardware() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(::sysconf(_SC_NPROCESSORS_ONLN) - 1), &one);
  ::sched_setaffinity(0, sizeof(one), &one);
  run_before_others();
}

}  // namespace

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
    if (packet.bth.opcode == Opcode::acknowledge) {
      const int complete = packet.syndrome == kSyndromeNak
                               ? pair.sender.on_nak(packet.bth.psn, now)
                               : pair.sender.on_ack(packet.bth.psn, now);
      if (complete > 0)
        on_acknowledged(pair, complete, now);
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
    if (answer.message_complete)
      on_received(pair, now);
  });
}

void Traffic::on_received(Pair& pair, Time now) {
  ++pair.received;
  Job& owner = *pair.job;
  Flow& flow = owner.flows.at(pair.ranks);
  const auto behind = [&](const Pair* each) { return each->received <= flow.received; };
  if (std::any_of(flow.pairs.begin(), flow.pairs.end(), behind))
    return;
  ++flow.received;
  post(owner, owner.collective->on_received(pair.ranks));
  settle(owner, now);
}

void Traffic::on_acknowledged(Pair& pair, int messages, Time now) {
  pair.acknowledged += static_cast<std::uint64_t>(messages);
  Job& owner = *pair.job;
  Flow& flow = owner.flows.at(pair.ranks);
  const auto behind = [&](const Pair* each) { return each->acknowledged <= flow.acknowledged; };
  while (std::none_of(flow.pairs.begin(), flow.pairs.end(), behind)) {
    ++flow.acknowledged;
    post(owner, owner.collective->on_acknowledged(pair.ranks));
  }
  settle(owner, now);
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
  for (const Transfer& message : messages) {
    const std::vector<Pair*>& pairs = owner.flows.at(message).pairs;
    for (Pair* const pair : pairs)
      pair->sender.post(owner.spec.message_bytes / static_cast<std::uint32_t>(pairs.size()));
  }
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