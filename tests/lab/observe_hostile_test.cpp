// The real heddle-agent under a server that sends it rubbish over a real socket (safety rule 10).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <zmq.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "common/wire/codec.h"
#include "tests/lab/process.h"
#include "tests/lab/program_lab.h"
#include "tests/tree.h"

namespace heddle::lab {
namespace {

using std::chrono::seconds;
using Bytes = std::vector<std::byte>;

// A ROUTER that sends whatever frames it is told to, to the one agent that has spoken.
class HostileServer {
 public:
  HostileServer() : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_ROUTER)) {
    constexpr int kPatience = 20000, kNone = 0, kWait = 1;
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &kPatience, sizeof(kPatience));
    zmq_setsockopt(socket_, ZMQ_SNDTIMEO, &kPatience, sizeof(kPatience));
    zmq_setsockopt(socket_, ZMQ_LINGER, &kNone, sizeof(kNone));
    // A full queue makes a sender wait; it drops nothing.
    zmq_setsockopt(socket_, ZMQ_ROUTER_MANDATORY, &kWait, sizeof(kWait));
    EXPECT_EQ(zmq_bind(socket_, "tcp://127.0.0.1:*"), 0);
    std::array<char, 128> name{};
    std::size_t size = name.size();
    zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, name.data(), &size);
    endpoint = name.data();
  }
  ~HostileServer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  HostileServer(const HostileServer&) = delete;
  HostileServer& operator=(const HostileServer&) = delete;

  // False on time-out.
  template <class Wanted>
  bool hears(const std::function<bool(const Wanted&)>& wanted = [](const Wanted&) {
    return true;
  }) {
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      Bytes frame(1 << 16);
      const int route = zmq_recv(socket_, frame.data(), frame.size(), 0);
      if (route < 0)
        return false;
      route_.assign(frame.begin(), frame.begin() + route);
      const int size = zmq_recv(socket_, frame.data(), frame.size(), 0);
      if (size < 0)
        return false;
      const auto envelope = decode(std::span(frame).first(static_cast<std::size_t>(size)));
      if (!envelope)
        continue;
      const auto* const message = std::get_if<Wanted>(&envelope->message);
      if (message != nullptr && wanted(*message))
        return true;
    }
    return false;
  }
  void send(const std::vector<Bytes>& frames) {
    ASSERT_GE(zmq_send(socket_, route_.data(), route_.size(), ZMQ_SNDMORE), 0);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const int more = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
      ASSERT_GE(zmq_send(socket_, frames[i].data(), frames[i].size(), more), 0);
    }
  }

  std::string endpoint;

 private:
  void* context_;
  void* socket_;
  Bytes route_;
};

Bytes coordinators(Message message) {
  return encode({.node = "coordinator", .sequence = 1, .message = std::move(message)});
}

TEST(SafetyRule10AgentProgram, AHostileServerMakesItProgramNothingAndDoesNotEndIt) {
  Leaf leaf;
  const TemporaryDirectory folder;
  const InNamespace inside(leaf.leaf);
  HostileServer server;
  const std::string config = folder.path() + "/agent.yaml";
  std::ofstream(config) << "node: leaf1\nrole: leaf\nmode: program\nlog_level: error\n"
                        << "coordinator: {endpoint: \"" << server.endpoint << "\", plain: true}\n"
                        << "state_dir: " << folder.path() << "/state\nrun_dir: " << folder.path()
                        << "/run\nuplinks: [\"up*\"]\nhost_ports: [\"p*\"]\n";
  Child agent = must(Child::start({.words = {HEDDLE_AGENT, "--config", config},
                                   .space = &leaf.leaf,
                                   .log = folder.path() + "/log"}));
  ASSERT_TRUE(server.hears<Hello>());

  const NodePlan wanted = plan(1, {pin("p1", "10.2.1.2", "up1"), pin("p2", "10.2.1.2", "up2")});
  const Bytes welcome =
      coordinators(Welcome{.version = {1, 0}, .report_interval = seconds(1), .lease = seconds(60)});
  const Bytes snapshot = coordinators(Snapshot{.plan = wanted, .digest = digest(wanted.pins)});
  // Welcome is said first: what follows comes from whom the agent listens to.
  server.send({welcome});
  ASSERT_TRUE(server.hears<Acknowledgement>());
  constexpr unsigned kSeed = 20261130;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  int sent = 0;
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = snapshot;
    if (round % 3 == 0)
      bytes.resize(random() % bytes.size());
    else
      for (int i = 0; i < 1 + round % 5; ++i)
        bytes[random() % bytes.size()] = std::byte{static_cast<unsigned char>(random())};
    if (round % 5 == 0) {
      server.send({snapshot, bytes});  // good, but only one frame is a message
      server.send({{}, snapshot, {}});
    } else if (!decode(bytes)) {  // a changed text for people would be no damage
      server.send({bytes});
      ++sent;
    }
  }
  EXPECT_GT(sent, 2000);
  server.send({Bytes(1 << 20, std::byte{0xff})});
  server.send({{}});

  // Messages come in order: when the good one is answered, all before it have been read.
  EXPECT_TRUE(leaf.nothing_pinned());
  server.send({coordinators(Switch{.enable = false, .by = "a test"})});
  ASSERT_TRUE(server.hears<Acknowledgement>([](const Acknowledgement& told) {
    return told.disabled;
  })) << "it does not live any more";
  EXPECT_TRUE(leaf.nothing_pinned());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/state/plan")) << "none was accepted";
  EXPECT_EQ(agent.stop(SIGTERM, seconds(10)), 0);
}

}  // namespace
}  // namespace heddle::lab
