// What traffic consists of behind traffic.h; for its own sources only.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/core/check.h"
#include "tests/lab/traffic.h"

namespace heddle::lab {

constexpr std::uint16_t kProbePort = 4790;

// What epoll says of a descriptor: its kind, and whose it is.
enum class Watch : std::uint64_t { wake, roce, probe };

inline std::uint64_t watch_data(Watch what, std::size_t host) {
  return static_cast<std::uint64_t>(what) << 32 | host;
}

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
  std::uint64_t received{};  // shares of messages
  std::uint64_t acknowledged{};
};

// All queue pairs from one host to another; a message is there when every share of it is.
struct Traffic::Flow {
  std::vector<Pair*> pairs;
  std::uint64_t received{};  // whole messages
  std::uint64_t acknowledged{};
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
  std::map<Transfer, Flow> flows;
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

}  // namespace heddle::lab
