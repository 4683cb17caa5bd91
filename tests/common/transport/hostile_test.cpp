// What strangers and broken networks do to the port: damaged bytes, messages in parts, peers that
// fall silent.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <random>

#include "common/transport/zmq_channel.h"
#include "tests/common/transport/support.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using test::await;
using test::LogLines;
using test::payload_of;
using test::TemporaryFolder;
using test::text_of;

class Tcp {
 public:
  explicit Tcp(int fd) : fd_(fd) {}
  Tcp(Tcp&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Tcp& operator=(Tcp&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Tcp() {
    if (fd_ >= 0)
      close(fd_);
  }
  static Tcp connect_to(std::uint16_t port) {
    Tcp tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(port);
    EXPECT_EQ(connect(tcp.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return tcp;
  }
  static Tcp listening() {
    Tcp tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(0);
    EXPECT_EQ(bind(tcp.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(tcp.fd_, 8), 0);
    return tcp;
  }
  std::uint16_t port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  int fd() const { return fd_; }
  // The peer may have hung up already, which is its right.
  void write(std::string_view bytes) const {
    (void)!send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  std::string read() const {
    char buffer[65536];
    const ssize_t n = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string();
  }
  void finish() const { shutdown(fd_, SHUT_WR); }

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  int fd_;
};

std::uint16_t port_of(const std::string& endpoint) {
  return static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

class HostilePeer : public testing::Test {
 protected:
  HostilePeer() {
    limits_.retry_first = 5ms;
    limits_.retry_last = 20ms;
    folder_.write("leaf1.pub", client_keys_.public_key);
    auto server = ZmqServerChannel::listen(*loop_, {.endpoint = "tcp://127.0.0.1:*",
                                                    .keys = server_keys_,
                                                    .authorised_keys = folder_.path(),
                                                    .limits = limits_});
    server_ = std::move(server.value());
    server_->on_message([this](const Peer& peer, Payload payload) {
      ++heard_;
      EXPECT_TRUE(server_->send(peer, payload));
    });
  }

  std::unique_ptr<ZmqClientChannel> connect(const std::string& endpoint) {
    auto client = ZmqClientChannel::connect(*loop_, {.endpoint = endpoint,
                                                     .keys = client_keys_,
                                                     .server_key = server_keys_.public_key,
                                                     .limits = limits_});
    (*client)->on_connection([this](bool connected, const std::string& reason) {
      connected_ = connected;
      reason_ = reason;
    });
    (*client)->on_message([this](Payload payload) { answer_ = text_of(payload); });
    return std::move(client.value());
  }

  // An honest client, made now, is served.
  bool serves() {
    const auto client = connect(server_->endpoint());
    return await(*loop_, [&] { return connected_; }) && client->send(payload_of("honest")) &&
           await(*loop_, [&] { return answer_ == "honest"; });
  }

  LogLines log_;
  TemporaryFolder folder_;
  std::unique_ptr<EventLoop> loop_ = EventLoop::create().value();
  KeyPair server_keys_ = generate_keys().value();
  KeyPair client_keys_ = generate_keys().value();
  ChannelLimits limits_;
  std::unique_ptr<ZmqServerChannel> server_;
  int heard_{};
  bool connected_{};
  std::string reason_, answer_;
};

// Half of the strangers begin like ZeroMQ does: signature, version 3, CURVE, then damage; the
// others are noise from the start. All are there at once.
TEST_F(HostilePeer, SafetyRule10DamagedBytesOnTheRawPortReachNobodyAndTheServerServesOn) {
  constexpr unsigned kSeed = 20'261'130;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  std::mt19937 random(kSeed);
  std::string greeting("\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE", 17);
  greeting.resize(64, '\0');
  std::vector<Tcp> strangers;
  for (int i = 0; i < 100; ++i) {
    std::string bytes = i % 2 == 0 ? greeting : std::string();
    const std::size_t length = random() % 600;
    for (std::size_t k = 0; k < length; ++k)
      bytes.push_back(static_cast<char>(random()));
    if (i % 4 == 0)
      bytes.resize(random() % bytes.size());
    if (i % 4 == 1)
      bytes = "GET / HTTP/1.1\r\n\r\n" + bytes;
    strangers.push_back(Tcp::connect_to(port_of(server_->endpoint())));
    strangers.back().write(bytes);
    if (i % 3 == 0)
      strangers.back().finish();
  }
  EXPECT_TRUE(serves()) << reason_;
  EXPECT_EQ(heard_, 1) << "only the honest client was heard";
}

// Recorded from an honest handshake and played again with one octet damaged at each place in turn.
TEST_F(HostilePeer, SafetyRule10ADamagedHandshakeIsRefused) {
  const Tcp listener = Tcp::listening();
  auto client = connect(fmt::format("tcp://127.0.0.1:{}", listener.port()));
  const Tcp accepted(accept(listener.fd(), nullptr, nullptr));
  const Tcp upstream = Tcp::connect_to(port_of(server_->endpoint()));
  std::string recorded;
  const auto up = loop_->on_readable(accepted.fd(), [&] {
    const std::string bytes = accepted.read();
    recorded += bytes;
    upstream.write(bytes);
  });
  const auto down = loop_->on_readable(upstream.fd(), [&] { accepted.write(upstream.read()); });
  ASSERT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
  client.reset();

  for (std::size_t place = 0; place < recorded.size(); place += 7) {
    std::string damaged = recorded;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x41);
    const Tcp stranger = Tcp::connect_to(port_of(server_->endpoint()));
    stranger.write(damaged);
    stranger.finish();
  }
  connected_ = false;
  EXPECT_TRUE(serves()) << reason_;
  EXPECT_EQ(heard_, 1);
}

// An authorised peer that speaks ZeroMQ, but not our protocol: no part, two parts, many.
TEST_F(HostilePeer, SafetyRule10AMessageOfSeveralPartsIsDropped) {
  void* context = zmq_ctx_new();
  void* dealer = zmq_socket(context, ZMQ_DEALER);
  const int zero = 0;
  zmq_setsockopt(dealer, ZMQ_LINGER, &zero, sizeof zero);
  zmq_setsockopt(dealer, ZMQ_CURVE_SERVERKEY, server_keys_.public_key.c_str(), 40);
  zmq_setsockopt(dealer, ZMQ_CURVE_PUBLICKEY, client_keys_.public_key.c_str(), 40);
  zmq_setsockopt(dealer, ZMQ_CURVE_SECRETKEY, client_keys_.secret_key.c_str(), 40);
  ASSERT_EQ(zmq_connect(dealer, server_->endpoint().c_str()), 0);
  for (const int parts : {2, 3, 50, 1}) {
    for (int i = 1; i <= parts; ++i)
      zmq_send(dealer, "part", 4, i < parts ? ZMQ_SNDMORE : 0);
  }
  // The last message, of one part, is heard; the ones before it went by.
  EXPECT_TRUE(await(*loop_, [&] { return heard_ > 0; }));
  EXPECT_EQ(heard_, 1);
  zmq_close(dealer);
  zmq_ctx_term(context);
}

TEST_F(HostilePeer, AMessageBeyondTheLimitEndsTheConnectionUnread) {
  limits_.max_message_bytes = 1'000;
  auto server =
      ZmqServerChannel::listen(*loop_, {.endpoint = "tcp://127.0.0.1:*", .limits = limits_});
  ASSERT_TRUE(server);
  (*server)->on_message([&](const Peer&, Payload) { ++heard_; });
  limits_.max_message_bytes = 10'000;
  auto client =
      ZmqClientChannel::connect(*loop_, {.endpoint = (*server)->endpoint(), .limits = limits_});
  ASSERT_TRUE(client);
  int losses = 0;
  (*client)->on_connection([&](bool connected, const std::string&) {
    if (connected && losses == 0) {
      EXPECT_TRUE((*client)->send(payload_of(std::string(1'001, 'x'))));
    } else if (connected) {
      EXPECT_TRUE((*client)->send(payload_of("short")));
    } else {
      ++losses;
    }
  });
  EXPECT_TRUE(await(*loop_, [&] { return heard_ > 0; }));
  EXPECT_EQ(heard_, 1);
  EXPECT_EQ(losses, 1);
}

// The network goes silent without a word, as when a cable is pulled: only the heartbeat can tell.
TEST_F(HostilePeer, APeerThatFallsSilentIsLost) {
  limits_.heartbeat = 50ms;
  const Tcp listener = Tcp::listening();
  const auto client = connect(fmt::format("tcp://127.0.0.1:{}", listener.port()));
  const Tcp accepted(accept(listener.fd(), nullptr, nullptr));
  const Tcp upstream = Tcp::connect_to(port_of(server_->endpoint()));
  auto up = loop_->on_readable(accepted.fd(), [&] { upstream.write(accepted.read()); });
  auto down = loop_->on_readable(upstream.fd(), [&] { accepted.write(upstream.read()); });
  ASSERT_TRUE(await(*loop_, [&] { return connected_; })) << reason_;
  const Time cut = SystemClock().now();
  up.value() = {};
  down.value() = {};
  ASSERT_TRUE(await(*loop_, [&] { return !connected_; }));
  EXPECT_GE(SystemClock().now() - cut, 90ms) << "two silent heartbeats are not yet a loss";
  EXPECT_LE(SystemClock().now() - cut, 2s);
}

// A port where something listens that never speaks.
TEST_F(HostilePeer, AServerThatSaysNothingIsGivenUp) {
  limits_.handshake = 100ms;
  const Tcp listener = Tcp::listening();
  const auto client = connect(fmt::format("tcp://127.0.0.1:{}", listener.port()));
  ASSERT_TRUE(await(*loop_, [&] { return !reason_.empty(); }));
  EXPECT_FALSE(connected_);
  EXPECT_THAT(reason_, testing::HasSubstr("127.0.0.1"));
}

}  // namespace
}  // namespace heddle
