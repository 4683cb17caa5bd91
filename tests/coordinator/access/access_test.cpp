// Access over real sockets: a coordinator as its program puts it together, agents and command lines
// with keys of their own, and the audit log as a file.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "common/transport/zmq_channel.h"
#include "common/wire/codec.h"
#include "coordinator/channel_port.h"
#include "coordinator/coordinator.h"
#include "coordinator/file_audit_log.h"
#include "tests/common/transport/support.h"
#include "tests/coordinator/fake_cluster.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::await;
using test::LogLines;
using test::TemporaryFolder;

// One connection with a key, which collects what it is answered.
struct Caller {
  Caller(EventLoop& loop, const std::string& endpoint, const KeyPair& keys,
         const std::string& server_key) {
    ChannelLimits limits;
    limits.retry_first = 5ms;
    limits.retry_last = 20ms;
    auto made = ZmqClientChannel::connect(
        loop, {.endpoint = endpoint, .keys = keys, .server_key = server_key, .limits = limits});
    HEDDLE_CHECK(made.has_value());
    channel = std::move(*made);
    channel->on_message([this](Payload payload) {
      auto envelope = decode(payload);
      ASSERT_TRUE(envelope);
      answers.push_back(std::move(envelope->message));
    });
    channel->on_connection([this](bool now, const std::string& reason) {
      connected = now;
      if (!now)
        lost = reason;
    });
  }
  void say(const std::string& node, const Message& message) {
    ASSERT_TRUE(channel->send(encode({.node = node, .sequence = 1, .message = message})));
  }
  template <class T>
  const T* answer() const {
    return answers.empty() ? nullptr : std::get_if<T>(&answers.back());
  }

  std::unique_ptr<ZmqClientChannel> channel;
  bool connected{};
  std::string lost;
  std::vector<Message> answers;
};

class AccessOverSockets : public ::testing::Test {
 protected:
  AccessOverSockets() {
    for (const char* role : {"agents", "viewers", "operators"})
      std::filesystem::create_directory(folder_.path() / role);
    channel_ = ZmqServerChannel::listen(*loop_, {.endpoint = "tcp://127.0.0.1:*",
                                                 .keys = server_,
                                                 .authorised_keys = folder_.path()})
                   .value();
    port_.emplace(*channel_);
    reign_.emplace(Reign::begin(store_).value());
    coordinator_.emplace(CoordinatorSettings(),
                         CoordinatorParts{.topology = topology_,
                                          .optimiser = *optimiser_,
                                          .reign = *reign_,
                                          .port = *port_,
                                          .history = history_,
                                          .store = store_,
                                          .audit = audit_,
                                          .clock = clock_,
                                          .log = [](const Notice&) {}},
                         std::vector<JobDeclaration>{}, OperatorState{});
    channel_->on_message([this](const Peer& peer, Payload payload) {
      const auto envelope = decode(payload);
      ASSERT_TRUE(envelope);
      coordinator_->received(port_->know(peer, envelope->node), *envelope);
      coordinator_->step();
    });
    channel_->on_keys([this](const AuthorisedKeys& keys) { keys_ = keys; });
    channel_->on_refusal([this](const ZmqServerChannel::Refused& refused) {
      coordinator_->access().turned_away(refused.key, KeyRole::unstated, "connect", refused.address,
                                         refused.reason);
    });
  }

  KeyPair authorise(const std::string& place) {
    const KeyPair keys = generate_keys().value();
    // As `heddle key add` does: it is there whole, or not at all.
    folder_.write(".fresh", keys.public_key);
    std::filesystem::rename(folder_.path() / ".fresh", folder_.path() / (place + ".pub"));
    EXPECT_TRUE(await(*loop_, [&] { return keys_.owners.contains(keys.public_key); }));
    return keys;
  }
  std::unique_ptr<Caller> connect(const KeyPair& keys) {
    auto caller = std::make_unique<Caller>(*loop_, channel_->endpoint(), keys, server_.public_key);
    EXPECT_TRUE(await(*loop_, [&] { return caller->connected; })) << caller->lost;
    return caller;
  }
  Reply ask(Caller& caller, const std::string& command, std::vector<std::string> arguments = {}) {
    caller.answers.clear();
    caller.say("cli", Request{++number_, command, std::move(arguments)});
    EXPECT_TRUE(await(*loop_, [&] { return caller.answer<Reply>() != nullptr; })) << command;
    return caller.answer<Reply>() == nullptr ? Reply{} : *caller.answer<Reply>();
  }
  std::vector<json> audit() const {
    std::ifstream in(folder_.path() / "audit.log");
    std::vector<json> records;
    for (std::string line; std::getline(in, line);)
      records.push_back(json::parse(line));
    return records;
  }
  Hello hello(std::uint64_t instance) const {
    Hello said;
    said.role = Role::leaf;
    said.software = "test";
    said.boot_id = "boot";
    said.instance = instance;
    return said;
  }

  LogLines log_;
  TemporaryFolder folder_;
  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
  SystemClock clock_;
  KeyPair server_ = generate_keys().value();
  Topology topology_ = testing_topology();
  std::unique_ptr<Optimiser> optimiser_ = make_optimiser("heddle");
  testing::MemoryStore store_;
  testing::MemoryHistory history_;
  FileAuditLog audit_{folder_.path() / "audit.log", [](const Notice&) {}};
  std::unique_ptr<ZmqServerChannel> channel_;
  std::optional<ChannelPort> port_;
  std::optional<Reign> reign_;
  std::optional<Coordinator> coordinator_;
  AuthorisedKeys keys_;
  std::uint64_t number_{};

 private:
  static Topology testing_topology() { return testing::small_fabric(2, 2, 1); }
};

TEST_F(AccessOverSockets, AnUnknownKeyIsRefusedAndOnRecord) {
  const KeyPair stranger = generate_keys().value();
  Caller caller(*loop_, channel_->endpoint(), stranger, server_.public_key);
  ASSERT_TRUE(await(*loop_, [&] { return !audit().empty(); }));
  EXPECT_FALSE(caller.connected);
  EXPECT_EQ(audit()[0]["key"], stranger.public_key);
  EXPECT_EQ(audit()[0]["command"], "connect");
  EXPECT_EQ(audit()[0]["outcome"], "refused: the key is not authorised");
  EXPECT_TRUE(log_.any_with("refused a connection"));
}

TEST_F(AccessOverSockets, AViewerThatAsksForAChangeIsRefusedAndOnRecord) {
  const auto viewer = connect(authorise("viewers/wall"));
  EXPECT_EQ(ask(*viewer, "status").exit_code, 0);
  const Reply refused = ask(*viewer, "disable", {"--all"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.error.find("is a viewer's"), std::string::npos) << refused.error;
  ASSERT_EQ(audit().size(), 1U) << "the question is not on record";
  EXPECT_EQ(audit()[0]["key"], "wall");
  EXPECT_EQ(audit()[0]["role"], "viewer");
  EXPECT_EQ(audit()[0]["command"], "disable");
  EXPECT_EQ(audit()[0]["arguments"], json({"--all"}));
  EXPECT_TRUE(store_.operators.disabled_nodes.empty());
}

TEST_F(AccessOverSockets, AnOperatorsOrderIsDoneAndOnRecord) {
  const auto alice = connect(authorise("operators/alice"));
  EXPECT_EQ(ask(*alice, "job declare", {"a", "h1-1", "h2-1"}).exit_code, 0);
  ASSERT_EQ(audit().size(), 1U);
  EXPECT_EQ(audit()[0]["key"], "alice");
  EXPECT_EQ(audit()[0]["outcome"], "done");
}

TEST_F(AccessOverSockets, AnAgentsKeyGivesNoCommandAndSpeaksForNoOtherNode) {
  const auto agent = connect(authorise("agents/leaf1"));
  EXPECT_EQ(ask(*agent, "status").exit_code, 1);
  agent->answers.clear();
  agent->say("leaf2", hello(1));
  ASSERT_TRUE(await(*loop_, [&] { return agent->answer<Refusal>() != nullptr; }));
  EXPECT_EQ(agent->answer<Refusal>()->code, Errc::permission);
  EXPECT_EQ(coordinator_->broadcast().find("leaf2"), nullptr);
  ASSERT_EQ(audit().size(), 2U);
  EXPECT_EQ(audit()[1]["key"], "leaf1");
  EXPECT_EQ(audit()[1]["arguments"], json({"leaf2"}));
  EXPECT_EQ(audit()[1]["outcome"], "refused: the key of 'leaf1' does not speak for 'leaf2'");
}

TEST_F(AccessOverSockets, AnOperatorsKeyIsNoAgentEvenIfItIsNamedLikeANode) {
  const auto imposter = connect(authorise("operators/leaf1"));
  imposter->say("leaf1", hello(1));
  ASSERT_TRUE(await(*loop_, [&] { return imposter->answer<Refusal>() != nullptr; }));
  EXPECT_EQ(coordinator_->broadcast().find("leaf1"), nullptr);
  EXPECT_EQ(audit().at(0)["outcome"],
            "refused: the key 'leaf1' is of the role 'operator' and speaks for no node");
}

// Safety rule 9, with one key on two machines.
TEST_F(AccessOverSockets, SafetyRule9ASecondAgentWithOneNameIsRefusedAndOnRecord) {
  const KeyPair keys = authorise("agents/leaf1");
  const auto first = connect(keys);
  first->say("leaf1", hello(1));
  ASSERT_TRUE(await(*loop_, [&] { return first->answer<Welcome>() != nullptr; }));
  const auto second = connect(keys);
  second->say("leaf1", hello(2));
  ASSERT_TRUE(await(*loop_, [&] { return second->answer<Refusal>() != nullptr; }));
  EXPECT_EQ(second->answer<Refusal>()->code, Errc::duplicate);
  EXPECT_EQ(coordinator_->broadcast().find("leaf1")->instance, 1U);
  ASSERT_EQ(audit().size(), 1U);
  EXPECT_EQ(audit()[0]["key"], "leaf1");
  EXPECT_TRUE(
      audit()[0]["outcome"].get<std::string>().starts_with("refused: two agents are named leaf1"));
}

// A key's new role holds for the connection that is there already.
TEST_F(AccessOverSockets, AKeyThatBecomesAViewersGivesNoMoreOrders) {
  const auto alice = connect(authorise("operators/alice"));
  EXPECT_EQ(ask(*alice, "job declare", {"a", "h1-1", "h2-1"}).exit_code, 0);
  std::filesystem::rename(folder_.path() / "operators" / "alice.pub",
                          folder_.path() / "viewers" / "alice.pub");
  ASSERT_TRUE(await(*loop_, [&] {
    return !keys_.owners.empty() && keys_.owners.begin()->second.role == KeyRole::viewer_key;
  }));
  EXPECT_EQ(ask(*alice, "job remove", {"a"}).exit_code, 1);
  EXPECT_EQ(ask(*alice, "job list").exit_code, 0);
  EXPECT_EQ(store_.operators.jobs.size(), 1U);
}

}  // namespace
}  // namespace heddle
