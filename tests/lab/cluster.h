// heddle itself on a laboratory fabric: a coordinator on the management network, an agent in every
// leaf and every host, and in every spine where hosts wrap packets; CURVE between them; keys and
// configuration are made here, the programs are the real ones. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/core/result.h"
#include "common/core/units.h"
#include "tests/lab/fabric.h"
#include "tests/lab/process.h"

namespace heddle::lab {

// What the agents' configuration says is ours in the kernel's tables.
constexpr std::uint8_t kPinProtocol = 205;
constexpr std::uint32_t kPinTableBase = 18800;
constexpr std::uint32_t kPinTableCount = 512;

struct ClusterJob {
  std::string name;
  std::vector<std::string> hosts;
};

// What a leaf's agent may do with its tables. Where paths are held by segments it observes, too,
// and hosts' agents program, over segments of spines' and hosts' agents.
enum class LeafMode : std::uint8_t { observe, port_tables, flow_marks, segments };
// What holds paths, as an agent's configuration names it.
std::string_view enforcer_name(LeafMode mode);

struct ClusterSpec {
  std::filesystem::path programs;  // the folder of heddle, heddle-agent and heddle-coordinator
  std::vector<ClusterJob> jobs;
  Duration report_interval{std::chrono::milliseconds(500)};
  Duration period{std::chrono::milliseconds(500)};
  Duration lease{std::chrono::seconds(5)};
  Duration flow_memory{std::chrono::seconds(2)};
  bool outlives_us{};
  LeafMode leaf_mode{LeafMode::port_tables};
  std::map<std::string, LeafMode> leaves{};  // those that are otherwise
  // More lines of the coordinator's configuration: a laboratory steers all its racks unless the
  // test is about a roll-out, and flows move again sooner than in a data centre.
  std::string coordinator_lines{"rollout: {mode: off}\ndwell_s: 1\n"};
};

struct ClusterStatus {
  std::uint64_t epoch{};
  std::uint64_t generation{};
  int agents{};
  int connected{};
  int programming{};
  int disabled{};
  int converged{};
  int elephants{};
  int links_down{};
};

struct PlanView {
  std::string version;
  std::map<std::string, double> efficiency;  // by job; empty where the plan could not judge
  int pins{};
  int moves{};
  std::string reason;
};

class Cluster {
 public:
  // Makes keys and configuration in the fabric's work folder. The fabric outlives the cluster.
  static Result<std::unique_ptr<Cluster>> prepare(Fabric& fabric, ClusterSpec spec);
  ~Cluster();

  Result<void> start_coordinator();
  Result<void> start_agents();
  // Ends the coordinator as systemd would; its exit status.
  int stop_coordinator();
  // As a machine that loses its power.
  void kill_coordinator();
  // Stops it where it is, and lets it go on: for as long, agents are on their own.
  void hold_coordinator(bool held);
  // The daemons stay when this object goes.
  void release();
  // A daemon that ended by itself, with where its log is; nothing if all are well.
  std::optional<std::string> casualty();

  // `heddle --json WORDS` as an operator on the management network would type it. Errc::io with its
  // error text if it fails.
  Result<std::string> ask(std::vector<std::string> words);
  Result<ClusterStatus> status();
  Result<PlanView> plan(const std::string& version = {});
  // Asks ten times a second until the condition holds; the status that satisfied it.
  Result<ClusterStatus> await(const std::function<bool(const ClusterStatus&)>& condition,
                              Duration patience, const std::string& what);

  int agents() const { return static_cast<int>(nodes_.size()); }
  int programming() const;  // so many of them may program
  std::filesystem::path folder() const { return folder_; }
  std::filesystem::path command_line_config() const { return folder_ / "heddle.yaml"; }

 private:
  Cluster(Fabric& fabric, ClusterSpec spec);
  Result<void> make_keys();
  Result<void> write_configuration();
  LeafMode mode_of(const std::string& node) const;
  bool programs(const std::string& node) const;
  std::string agent_yaml(const std::string& node) const;
  std::string coordinator_yaml() const;
  Result<Child> start(const std::string& program, const std::string& node,
                      const std::string& config);

  Fabric& fabric_;
  ClusterSpec spec_;
  std::filesystem::path folder_;
  std::vector<std::string> nodes_;  // those with an agent
  std::optional<Child> coordinator_;
  std::map<std::string, Child> agents_;
};

// Every trace of pins of IPv4 in a node's tables: routes, rules and next hops of our protocol
// number.
Result<int> count_pins(Netlink& net);

}  // namespace heddle::lab
