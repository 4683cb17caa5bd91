// The channel over real sockets on loopback: what passes, what is refused and what is said about
// it.
#include "common/transport/zmq_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "common/transport/zmq_socket.h"
#include "tests/common/transport/support.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using test::await;
using test::LogLines;
using test::payload_of;
using test::TemporaryFolder;
using test::text_of;
using testing::HasSubstr;

// A coordinator that echoes, an agent whose key is authorised as leaf1, quick to try again.
class ZmqChannel : public testing::Test {
 protected:
  ZmqChannel() {
    limits_.retry_first = 5ms;
    limits_.retry_last = 20ms;
    authorise("leaf1", client_keys_);
  }

  void authorise(const std::string& name, const KeyPair& keys) {
    folder_.write(name + ".pub", keys.public_key);
  }

  void listen(const std::string& endpoint = "tcp://127.0.0.1:*") {
    auto server = ZmqServerChannel::listen(*loop_, {.endpoint = endpoint,
                                                    .keys = server_keys_,
                                                    .authorised_keys = folder_.path(),
                                                    .limits = limits_});
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    endpoint_ = server_->endpoint();
    server_->on_message([this](const Peer& peer, Payload payload) {
      peer_ = peer;
      heard_.push_back(text_of(payload));
      sent_ = server_->send(peer, payload);
    });
  }

  void connect(const std::string& server_key) {
    auto client = ZmqClientChannel::connect(
        *loop_,
        {.endpoint = endpoint_, .keys = client_keys_, .server_key = server_key, .limits = limits_});
    ASSERT_TRUE(client) << client.error().message;
    client_ = std::move(*client);
    client_->on_message([this](Payload payload) { answers_.push_back(text_of(payload)); });
    client_->on_connection([this](bool connected, const std::string& reason) {
      connected_ = connected;
      (connected ? connections_ : losses_) += 1;
      if (!connected)
        reason_ = reason;
    });
  }
  void connect() { connect(server_keys_.public_key); }

  bool echoes(const std::string& text) {
    answers_.clear();
    const auto sent = client_->send(payload_of(text));
    return sent && await(*loop_, [&] { return !answers_.empty(); }) && answers_.front() == text;
  }

  LogLines log_;
  TemporaryFolder folder_;
  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
  KeyPair server_keys_ = generate_keys().value();
  KeyPair client_keys_ = generate_keys().value();
  ChannelLimits limits_;
  std::string endpoint_;
  std::unique_ptr<ZmqServerChannel> server_;
  std::unique_ptr<ZmqClientChannel> client_;
  std::optional<Peer> peer_;
  std::vector<std::string> heard_, answers_;
  Result<void> sent_;
  bool connected_{};
  int connections_{}, losses_{};
  std::string reason_;
};

TEST_F(ZmqChannel, EchoesAndNamesThePeerByItsKey) {
  listen();
  connect();
  EXPECT_EQ(client_->send(payload_of("early")).error().code, Errc::io) << "before the handshake";
  ASSERT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
  EXPECT_TRUE(echoes("hello"));
  EXPECT_EQ(peer_->name, "leaf1");
  EXPECT_EQ(peer_->key, client_keys_.public_key);
  EXPECT_TRUE(echoes(std::string(1, '\0') + "binary, and empty:"));
  EXPECT_TRUE(echoes(""));
}

// ZeroMQ's descriptor tells of the first message only; the others must come without another edge.
TEST_F(ZmqChannel, ABurstArrivesWhole) {
  constexpr std::size_t kMessages = 1'000;
  limits_.queued_messages = 2 * kMessages;
  listen();
  connect();
  ASSERT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
  for (std::size_t i = 0; i < kMessages; ++i)
    ASSERT_TRUE(client_->send(payload_of(std::to_string(i))));
  ASSERT_TRUE(await(*loop_, [&] { return answers_.size() == kMessages; })) << answers_.size();
  for (std::size_t i = 0; i < kMessages; ++i)
    ASSERT_EQ(answers_[i], std::to_string(i));
}

TEST_F(ZmqChannel, AWrongServerKeyIsNamedOnBothSides) {
  listen();
  connect(generate_keys().value().public_key);
  ASSERT_TRUE(await(*loop_, [&] { return losses_ > 0; }));
  EXPECT_THAT(reason_, HasSubstr("is its public key the one that is configured?"));
  EXPECT_THAT(reason_, HasSubstr(endpoint_));
  EXPECT_TRUE(await(*loop_, [&] { return log_.any_with("made for another server key"); }));
  EXPECT_EQ(connections_, 0);
}

// ZeroMQ by itself would never try again after a refusal.
TEST_F(ZmqChannel, AnUnknownClientKeyIsRefusedUntilItIsAuthorised) {
  client_keys_ = generate_keys().value();
  listen();
  connect();
  ASSERT_TRUE(await(*loop_, [&] { return losses_ > 0; }));
  EXPECT_THAT(reason_, HasSubstr("refused: the key is not authorised"));
  EXPECT_TRUE(log_.any_with(client_keys_.public_key));
  EXPECT_EQ(losses_, 1) << "said again without news";

  authorise("leaf7", client_keys_);
  ASSERT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
  EXPECT_TRUE(echoes("in"));
  EXPECT_EQ(peer_->name, "leaf7");
}

// A role's folder that is made after the start is noticed, and with it what each key may do.
TEST_F(ZmqChannel, TellsWhatAKeyMayDoByItsFolderAndFollowsItsChanges) {
  listen();
  std::vector<AuthorisedKeys> read;
  server_->on_keys([&](const AuthorisedKeys& keys) { read.push_back(keys); });
  ASSERT_EQ(read.size(), 1U) << "what is known at once";
  connect();
  ASSERT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
  EXPECT_TRUE(echoes("one"));
  EXPECT_EQ(peer_->role, KeyRole::unstated);
  std::filesystem::create_directory(folder_.path() / "viewers");
  ASSERT_TRUE(await(*loop_, [&] { return read.size() == 2; }));
  std::filesystem::rename(folder_.path() / "leaf1.pub", folder_.path() / "viewers" / "wall.pub");
  ASSERT_TRUE(await(*loop_, [&] {
    const auto owner = read.back().owners.find(client_keys_.public_key);
    return owner != read.back().owners.end() && owner->second.role == KeyRole::viewer_key;
  }));
  EXPECT_TRUE(echoes("two")) << "the connection goes on";
  EXPECT_EQ(peer_->name, "wall");
  EXPECT_EQ(peer_->role, KeyRole::viewer_key);
}

TEST_F(ZmqChannel, TellsOfConnectionsThatItRefuses) {
  client_keys_ = generate_keys().value();
  listen();
  std::vector<ZmqServerChannel::Refused> refused;
  server_->on_refusal([&](const auto& one) { refused.push_back(one); });
  connect();
  ASSERT_TRUE(await(*loop_, [&] { return !refused.empty(); }));
  EXPECT_EQ(refused.front().key, client_keys_.public_key);
  EXPECT_THAT(refused.front().address, HasSubstr("127.0.0.1"));
  EXPECT_THAT(refused.front().reason, HasSubstr("not authorised"));
}

TEST_F(ZmqChannel, AKeyThatIsTakenOutIsNeitherHeardNorSpokenTo) {
  listen();
  connect();
  ASSERT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
  ASSERT_TRUE(echoes("before"));
  std::filesystem::remove(folder_.path() / "leaf1.pub");
  ASSERT_TRUE(await(*loop_, [&] { return log_.any_with("read again: 0"); }));
  heard_.clear();
  ASSERT_TRUE(client_->send(payload_of("after")));
  ASSERT_TRUE(await(*loop_, [&] {
    return log_.any_with("dropped a message under key " + client_keys_.public_key);
  }));
  EXPECT_TRUE(heard_.empty());
  EXPECT_EQ(server_->send(*peer_, payload_of("plan")).error().code, Errc::permission);
}

TEST_F(ZmqChannel, AClientComesBackToAServerThatRestarts) {
  listen();
  connect();
  ASSERT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
  ASSERT_TRUE(echoes("before"));
  const Peer before = *peer_;
  server_.reset();
  ASSERT_TRUE(await(*loop_, [&] { return !connected_; }));
  EXPECT_THAT(reason_, HasSubstr("ended the connection"));
  EXPECT_EQ(client_->send(payload_of("lost")).error().code, Errc::io);
  listen(endpoint_);
  ASSERT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
  EXPECT_TRUE(echoes("after"));
  EXPECT_EQ(heard_, (std::vector<std::string>{"before", "after"}));
  EXPECT_EQ(server_->send(before, payload_of("x")).error().code, Errc::not_found)
      << "a route outlived its connection";
}

TEST_F(ZmqChannel, NobodyListeningIsSaidOnceAndTriedAgain) {
  listen();
  server_.reset();
  connect();
  ASSERT_TRUE(await(*loop_, [&] { return losses_ > 0; }));
  EXPECT_THAT(reason_, HasSubstr("cannot connect to " + endpoint_));
  // Enough for several attempts, the longest pause being 20 ms.
  bool passed = false;
  const EventSource timer = loop_->at(SystemClock().now() + 100ms, [&] { passed = true; });
  ASSERT_TRUE(await(*loop_, [&] { return passed; }));
  EXPECT_EQ(losses_, 1);
  listen(endpoint_);
  EXPECT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
}

TEST_F(ZmqChannel, APortInUseIsAnErrorThatNamesTheEndpoint) {
  listen();
  const auto second = ZmqServerChannel::listen(
      *loop_, {.endpoint = endpoint_, .keys = server_keys_, .authorised_keys = folder_.path()});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::io);
  EXPECT_THAT(second.error().message, HasSubstr(endpoint_));
  EXPECT_THAT(second.error().message, HasSubstr("in use"));
}

TEST_F(ZmqChannel, AnAddressThatIsNotOursIsAnErrorThatNamesTheEndpoint) {
  const auto server = ZmqServerChannel::listen(*loop_, {.endpoint = "tcp://192.0.2.1:7117",
                                                        .keys = server_keys_,
                                                        .authorised_keys = folder_.path()});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Errc::io);
  EXPECT_THAT(server.error().message, HasSubstr("tcp://192.0.2.1:7117"));
}

TEST_F(ZmqChannel, WithoutTheFolderOfKeysThereIsNoServer) {
  const auto server =
      ZmqServerChannel::listen(*loop_, {.endpoint = "tcp://127.0.0.1:*",
                                        .keys = server_keys_,
                                        .authorised_keys = folder_.path() / "none"});
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, Errc::not_found);
}

TEST_F(ZmqChannel, AMessageThatIsTooLongIsRefusedAtOnce) {
  limits_.max_message_bytes = 1'000;
  listen();
  connect();
  ASSERT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
  EXPECT_EQ(client_->send(payload_of(std::string(1'001, 'x'))).error().code,
            Errc::invalid_argument);
  EXPECT_TRUE(echoes(std::string(1'000, 'x')));
  EXPECT_EQ(server_->send(*peer_, payload_of(std::string(1'001, 'x'))).error().code,
            Errc::invalid_argument);
}

// Nobody reads: four messages may wait on either side, and a few megabytes in the kernel.
TEST_F(ZmqChannel, AFullQueueDropsInsteadOfGrowing) {
  limits_.queued_messages = 4;
  listen();
  connect();
  ASSERT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
  const std::string megabyte(1 << 20, 'x');
  Result<void> sent;
  int accepted = 0;
  while (sent && accepted < 1'000) {
    sent = client_->send(payload_of(megabyte));
    accepted += sent ? 1 : 0;
  }
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::timeout);
  EXPECT_LT(accepted, 100);
}

TEST_F(ZmqChannel, WhatCanNeverConnectIsAnErrorAtOnce) {
  const auto code = [&](ClientOptions options) {
    const auto client = ZmqClientChannel::connect(*loop_, std::move(options));
    return client ? std::optional<Errc>() : client.error().code;
  };
  const std::string key = server_keys_.public_key;
  EXPECT_EQ(code({.endpoint = "leaf1", .keys = client_keys_, .server_key = key}),
            Errc::invalid_argument);
  EXPECT_EQ(code({.endpoint = "udp://127.0.0.1:1", .keys = client_keys_, .server_key = key}),
            Errc::invalid_argument);
  EXPECT_EQ(code({.endpoint = "tcp://127.0.0.1:x", .keys = client_keys_, .server_key = key}),
            Errc::invalid_argument);
  EXPECT_EQ(code({.endpoint = "tcp://127.0.0.1:1", .keys = client_keys_, .server_key = {}}),
            Errc::invalid_argument);
  EXPECT_EQ(code({.endpoint = "tcp://127.0.0.1:1", .keys = client_keys_, .server_key = "x"}),
            Errc::invalid_argument);
  EXPECT_EQ(code({.endpoint = "tcp://127.0.0.1:1", .keys = KeyPair{"a", "b"}, .server_key = key}),
            Errc::invalid_argument);
}

TEST(PlainTransport, IsForThisMachineOrForWhoAsksForIt) {
  using zmq_detail::check_endpoint;
  for (const char* endpoint : {"tcp://127.0.0.1:1", "tcp://127.8.8.8:1", "tcp://[::1]:1",
                               "tcp://localhost:*", "ipc:///x"}) {
    EXPECT_TRUE(check_endpoint(endpoint, true, false)) << endpoint;
  }
  for (const char* endpoint :
       {"tcp://*:1", "tcp://0.0.0.0:1", "tcp://10.0.0.1:1", "tcp://[::]:1", "tcp://eth0:1",
        "tcp://127.0.0.1.example.org:1", "tcp://localhost.example.org:1"}) {
    EXPECT_EQ(check_endpoint(endpoint, true, false).error().code, Errc::invalid_argument)
        << endpoint;
    EXPECT_TRUE(check_endpoint(endpoint, true, true)) << endpoint;
    EXPECT_TRUE(check_endpoint(endpoint, false, false)) << endpoint;
  }
}

TEST_F(ZmqChannel, APlainClientIsToldThatKeysAreNeeded) {
  listen();
  auto client = ZmqClientChannel::connect(*loop_, {.endpoint = endpoint_, .limits = limits_});
  ASSERT_TRUE(client);
  (*client)->on_connection([&](bool connected, const std::string& reason) {
    EXPECT_FALSE(connected);
    reason_ = reason;
  });
  ASSERT_TRUE(await(*loop_, [&] { return !reason_.empty(); }));
  // Both sides see that they differ; the one that is first hangs up.
  EXPECT_THAT(reason_, testing::AnyOf(HasSubstr("one side uses CURVE keys"),
                                      HasSubstr("does it want keys?")));
}

TEST_F(ZmqChannel, PlainPeersHaveNoName) {
  auto server =
      ZmqServerChannel::listen(*loop_, {.endpoint = "tcp://127.0.0.1:*", .limits = limits_});
  ASSERT_TRUE(server) << server.error().message;
  (*server)->on_message([&](const Peer& peer, Payload) { peer_ = peer; });
  auto client =
      ZmqClientChannel::connect(*loop_, {.endpoint = (*server)->endpoint(), .limits = limits_});
  ASSERT_TRUE(client) << client.error().message;
  (*client)->on_connection([&](bool connected, const std::string&) {
    if (connected) {
      EXPECT_TRUE((*client)->send(payload_of("x")));
    }
  });
  ASSERT_TRUE(await(*loop_, [&] { return peer_.has_value(); }));
  EXPECT_EQ(peer_->name, "");
  EXPECT_EQ(peer_->key, "");
}

}  // namespace
}  // namespace heddle
