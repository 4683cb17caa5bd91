// Training traffic over a fabric: jobs that repeat a collective and a pause, as RoCEv2 packets over
// the laboratory's own transport, and numbered probes beside them. All hosts live in one process
// and one thread with one epoll loop, their sockets each in its host's namespace. The public
// functions may be called from one other thread; each waits for the loop to have done it.
#pragma once

#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "common/core/address.h"
#include "common/core/result.h"
#include "common/core/units.h"
#include "tests/lab/collective.h"
#include "tests/lab/probe.h"
#include "tests/lab/queue_pair.h"
#include "tests/lab/roce_port.h"

namespace heddle::lab {

struct TrafficHost {
  std::string name;
  IpAddress address;
  const NetNamespace* space{};  // outlives the traffic
};

struct JobSpec {
  std::string name;
  Pattern pattern{};
  std::vector<std::string> hosts;  // in the order of their ranks
  std::uint32_t message_bytes{};   // of each step
  Duration compute{};              // the pause between iterations
  int window{8};                   // packets, of each queue pair
  int queue_pairs{1};              // that carry a message between two hosts, in equal shares
};

struct Iteration {
  Time begin;
  Duration communication{};
};

struct PairReport {
  std::string job;
  std::string source;
  std::string destination;
  std::uint16_t source_port{};
  std::uint32_t dest_qpn{};
  SenderCounters sender;
  ReceiverCounters receiver;
};

struct FlowOutage : Outage {
  std::string source;  // the host
};

// What one host tells: as a sender its retransmissions, as a receiver losses and reordering.
struct HostReport {
  std::string name;
  std::uint64_t transmitted{};
  std::uint64_t retransmitted{};
  std::uint64_t timeouts{};
  std::uint64_t lost{};
  std::uint64_t reordered{};
  IcrcCounters icrc;
};

class Traffic {
 public:
  static Result<std::unique_ptr<Traffic>> start(const std::vector<TrafficHost>& hosts);
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  // Errc::not_found for a host that is none of ours.
  Result<void> add_job(const JobSpec& job);
  // New queue pairs for every job, numbers drawn from the seed; their source ports follow from
  // them. No job may be running.
  Result<void> connect(unsigned seed);

  // Starts all jobs, forgetting earlier iterations; each repeats until finish(), which lets
  // iterations under way end. Errc::timeout if they do not within `patience`; they go on then.
  void run();
  Result<void> finish(Duration patience);
  // Waits until every job has completed so many iterations that began after `since`; Errc::timeout.
  Result<void> await_iterations(int count, Time since, Duration patience);
  // Complete ones since run(), oldest first.
  std::vector<Iteration> iterations(const std::string& job);
  // How long the iteration under way has lasted; zero in a pause.
  Duration under_way(const std::string& job);

  std::vector<PairReport> pairs();
  std::vector<HostReport> hosts();

  // A probe beside each queue pair's flow, from its source host to its destination host (UDP, not
  // RoCE), so many a second; zero ends it. Numbers go on.
  void probe(int per_second);
  ProbeCounts probes_between(Time from, Time to);
  // ProbeLog::outage of every flow that had one.
  std::vector<FlowOutage> probe_outages(Time from, Time to);

 private:
  struct Host;
  struct Job;
  struct Flow;
  struct Pair;
  struct Probe;

  Traffic();
  void loop();
  // Runs `body` on the loop's thread and waits.
  template <class Body>
  auto call(Body&& body) -> std::invoke_result_t<Body>;
  // Waits until the loop sees `condition` hold; it looks after each iteration's end.
  Result<void> await(std::function<bool()> condition, Duration patience, const char* what);
  void release_waiters();
  void run_commands();
  void receive_roce(Host& host);
  void receive_probes(Host& host);
  void answer_all();
  void pump(Pair& pair, Time now);
  void post(Job& job, const std::vector<Transfer>& messages);
  void on_received(Pair& pair, Time now);
  void on_acknowledged(Pair& pair, int messages, Time now);
  void settle(Job& job, Time now);
  void start_iteration(Job& job, Time now);
  void timers(Time now);
  Time next_deadline() const;
  Host* find(const std::string& name);
  Job& job(const std::string& name);
  Result<void> make_pairs(unsigned seed);
  void make_probes();

  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::vector<std::unique_ptr<Probe>> probes_;
  Duration probe_interval_{};
  Time next_probe_;
  std::size_t next_probe_flow_{0};
  int epoll_{-1};
  int wake_{-1};
  bool stopping_{};
  std::mutex mutex_;
  std::vector<std::function<void()>> commands_;
  struct Waiter {
    std::function<bool()> condition;
    std::promise<void> held;
  };
  std::list<Waiter> waiters_;
  std::thread thread_;
};

}  // namespace heddle::lab
