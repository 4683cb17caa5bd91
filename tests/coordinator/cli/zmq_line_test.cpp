// The command line against a coordinator's real socket on loopback.
#include "coordinator/cli/zmq_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <sstream>
#include <thread>

#include "common/transport/zmq_channel.h"
#include "common/wire/codec.h"
#include "coordinator/cli/run.h"

namespace heddle {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

// A coordinator on a thread of its own, because the command line waits for it as it would for a
// real one. It says the same to every question.
class Server {
 public:
  explicit Server(const std::filesystem::path& folder) {
    keys_ = *generate_keys();
    std::filesystem::create_directories(folder / "authorised");
    loop_ = std::move(*EventLoop::create());
    auto channel = ZmqServerChannel::listen(*loop_, {.endpoint = "tcp://127.0.0.1:*",
                                                     .keys = keys_,
                                                     .authorised_keys = folder / "authorised",
                                                     .limits = {}});
    EXPECT_TRUE(channel) << channel.error().message;
    channel_ = std::move(*channel);
    endpoint_ = channel_->endpoint();
    channel_->on_message([this](const Peer& peer, Payload payload) {
      const auto envelope = decode(payload);
      ASSERT_TRUE(envelope);
      const auto& request = std::get<Request>(envelope->message);
      EXPECT_TRUE(channel_->send(
          peer, encode(Envelope{"coordinator", 1, Reply{request.id, 0, R"({"links":[]})", ""}})));
    });
    thread_ = std::thread([this] {
      while (!stop_)
        (void)loop_->run_once(20ms);
    });
  }
  ~Server() {
    stop_ = true;
    thread_.join();
  }
  const std::string& endpoint() const { return endpoint_; }
  const std::string& public_key() const { return keys_.public_key; }

 private:
  KeyPair keys_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<ZmqServerChannel> channel_;
  std::string endpoint_;
  std::atomic<bool> stop_{};
  std::thread thread_;
};

class ZmqLine : public testing::Test {
 protected:
  ZmqLine()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("heddle_line_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "authorised");
    ours_ = *generate_keys();
    EXPECT_TRUE(write_keys(ours_, folder_ / "cli"));
  }
  ~ZmqLine() override { std::filesystem::remove_all(folder_); }

  // Writes only the public half where it is to be found.
  void put_public(const std::string& key, const std::filesystem::path& file) {
    const auto scratch = folder_ / "scratch";
    std::filesystem::remove(scratch);
    std::filesystem::remove(scratch.string() + ".pub");
    EXPECT_TRUE(write_keys({key, ours_.secret_key}, scratch));
    std::filesystem::rename(scratch.string() + ".pub", file);
  }
  Exit links(const std::string& endpoint, const std::string& timeout) {
    return run({"links", "--coordinator", endpoint, "--key", (folder_ / "cli").string(),
                "--server-key", (folder_ / "coordinator.pub").string(), "--timeout", timeout},
               {.out = out_,
                .err = err_,
                .config = folder_ / "absent.yaml",
                .version = "0.1.0",
                .connect = open_zmq_line,
                .pause = {}});
  }

  std::filesystem::path folder_;
  KeyPair ours_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(ZmqLine, AsksAndIsAnswered) {
  put_public(ours_.public_key, folder_ / "authorised" / "cli.pub");
  const Server server(folder_);
  put_public(server.public_key(), folder_ / "coordinator.pub");
  EXPECT_EQ(links(server.endpoint(), "20"), Exit::ok) << err_.str();
  EXPECT_EQ(out_.str(), "The fabric has no links.\n");
}

TEST_F(ZmqLine, AKeyThatIsNotAuthorisedIsExitThreeWithAClearLine) {
  const Server server(folder_);
  put_public(server.public_key(), folder_ / "coordinator.pub");
  EXPECT_EQ(links(server.endpoint(), "20"), Exit::unreachable);
  EXPECT_THAT(err_.str(), HasSubstr("refused"));
  EXPECT_THAT(err_.str(), HasSubstr("key"));
  EXPECT_THAT(err_.str(), HasSubstr("authorised keys"));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(ZmqLine, AWrongKeyOfTheCoordinatorIsExitThree) {
  put_public(ours_.public_key, folder_ / "authorised" / "cli.pub");
  const Server server(folder_);
  put_public(generate_keys()->public_key, folder_ / "coordinator.pub");
  EXPECT_EQ(links(server.endpoint(), "2"), Exit::unreachable);
  EXPECT_THAT(err_.str(), HasSubstr("--server-key"));
}

TEST_F(ZmqLine, APortOnWhichNobodyListensIsExitThree) {
  put_public(ours_.public_key, folder_ / "coordinator.pub");
  EXPECT_EQ(links("tcp://127.0.0.1:1", "20"), Exit::unreachable);
  EXPECT_THAT(err_.str(), HasSubstr("tcp://127.0.0.1:1"));
}

TEST_F(ZmqLine, MissingKeyFilesAreWrongUsageAndSayHowToMakeThem) {
  std::filesystem::remove(folder_ / "cli");
  EXPECT_EQ(links("tcp://127.0.0.1:1", "20"), Exit::usage);
  EXPECT_THAT(err_.str(), HasSubstr("heddle keygen"));
}

TEST_F(ZmqLine, AMalformedEndpointIsWrongUsage) {
  put_public(ours_.public_key, folder_ / "coordinator.pub");
  EXPECT_EQ(links("somewhere", "20"), Exit::usage);
  EXPECT_THAT(err_.str(), HasSubstr("somewhere"));
}

}  // namespace
}  // namespace heddle
