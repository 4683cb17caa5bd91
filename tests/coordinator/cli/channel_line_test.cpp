// Question and answer over a channel of the test's own, which loses, delays and garbles as it is
// told.
#include "coordinator/cli/channel_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/runtime/system_clock.h"
#include "common/wire/codec.h"

namespace heddle {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class FakeChannel final : public ClientChannel {
 public:
  void on_message(Handler handler) override { receive = std::move(handler); }
  void on_connection(std::function<void(bool, const std::string&)> handler) override {
    connection = std::move(handler);
  }
  Result<void> send(Payload payload) override {
    if (refuse_send)
      return fail(Errc::io, "not connected");
    auto envelope = decode(payload);
    EXPECT_TRUE(envelope) << envelope.error().message;
    sent.push_back(std::get<Request>(envelope->message));
    if (on_send)
      on_send(sent.back());
    return {};
  }
  void reply(const Reply& reply) { receive(encode(Envelope{"coordinator", 1, reply})); }

  Handler receive;
  std::function<void(bool, const std::string&)> connection;
  std::function<void(const Request&)> on_send;
  std::vector<Request> sent;
  bool refuse_send{};
};

class ChannelLineTest : public testing::Test {
 protected:
  // Runs in the loop's first turn, which is after ask() began to wait.
  void soon(EventLoop::Handler handler) { source_ = loop_->soon(std::move(handler)); }
  void connect_soon() {
    soon([this] { channel_.connection(true, ""); });
  }
  Result<Reply> ask(Duration timeout = 5s) { return line_.ask("job remove", {"A"}, timeout); }

  SystemClock clock_;
  std::unique_ptr<EventLoop> loop_{std::move(*EventLoop::create())};
  FakeChannel channel_;
  ChannelLine line_{*loop_, clock_, channel_, "tcp://c:7117"};
  EventSource source_;
};

TEST_F(ChannelLineTest, AsksOnceItIsConnectedAndGivesTheAnswer) {
  connect_soon();
  channel_.on_send = [this](const Request& request) { channel_.reply({request.id, 0, "{}", ""}); };
  const auto reply = ask();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->json, "{}");
  ASSERT_EQ(channel_.sent.size(), 1U);
  EXPECT_EQ(channel_.sent[0].command, "job remove");
  EXPECT_EQ(channel_.sent[0].arguments, std::vector<std::string>{"A"});
}

TEST_F(ChannelLineTest, AReplyToAnotherQuestionIsNotTaken) {
  connect_soon();
  channel_.on_send = [this](const Request& request) {
    channel_.reply({request.id - 1, 0, "late", ""});
    channel_.receive(encode(Envelope{"coordinator", 1, Heartbeat{}}));
    channel_.reply({request.id, 0, "ours", ""});
  };
  const auto reply = ask();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->json, "ours");
}

TEST_F(ChannelLineTest, TwoQuestionsHaveTwoNumbers) {
  connect_soon();
  channel_.on_send = [this](const Request& request) { channel_.reply({request.id, 0, "{}", ""}); };
  ASSERT_TRUE(ask());
  ASSERT_TRUE(ask());
  EXPECT_NE(channel_.sent[0].id, channel_.sent[1].id);
}

TEST_F(ChannelLineTest, SilenceEndsAtTheTimeout) {
  const Time begin = clock_.now();
  const auto reply = ask(20ms);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::timeout);
  EXPECT_EQ(reply.error().message,
            "the coordinator at tcp://c:7117 could not be reached within 0.02 s");
  EXPECT_GE(clock_.now() - begin, 20ms);
}

TEST_F(ChannelLineTest, AConnectionWithoutAnAnswerEndsAtTheTimeoutToo) {
  connect_soon();
  const auto reply = ask(20ms);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().message, "the coordinator at tcp://c:7117 did not answer within 0.02 s");
}

TEST_F(ChannelLineTest, ARefusalIsKnownAtOnceAndIsAMatterOfPermission) {
  soon([this] { channel_.connection(false, "tcp://c:7117: refused: the key is not authorised"); });
  const auto reply = ask(60s);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::permission);
  EXPECT_EQ(reply.error().message,
            "no coordinator: tcp://c:7117: refused: the key is not authorised");
}

TEST_F(ChannelLineTest, AFailedConnectionIsKnownAtOnce) {
  soon([this] { channel_.connection(false, "cannot connect to tcp://c:7117"); });
  const auto reply = ask(60s);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::io);
  EXPECT_EQ(reply.error().message, "no coordinator: cannot connect to tcp://c:7117");
}

TEST_F(ChannelLineTest, AConnectionLostBeforeTheAnswerIsAnError) {
  connect_soon();
  channel_.on_send = [this](const Request&) {
    channel_.connection(false, "closed by the other side");
  };
  const auto reply = ask(60s);
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().message, HasSubstr("closed by the other side"));
}

TEST_F(ChannelLineTest, AnOldFailureDoesNotSpoilTheNextQuestion) {
  soon([this] { channel_.connection(false, "cannot connect to tcp://c:7117"); });
  ASSERT_FALSE(ask(60s));
  connect_soon();
  channel_.on_send = [this](const Request& request) { channel_.reply({request.id, 0, "{}", ""}); };
  EXPECT_TRUE(ask());
}

TEST_F(ChannelLineTest, ASendThatFailsIsAnError) {
  connect_soon();
  channel_.refuse_send = true;
  const auto reply = ask(60s);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::io);
}

TEST(SafetyRule10, AGarbledReplyIsSaidToBeOneAndDoesNoHarm) {
  SystemClock clock;
  const auto loop = std::move(*EventLoop::create());
  FakeChannel channel;
  ChannelLine line(*loop, clock, channel, "tcp://c:7117");
  const EventSource connect = loop->soon([&] { channel.connection(true, ""); });
  channel.on_send = [&](const Request& request) {
    auto bytes = encode(Envelope{"coordinator", 1, Reply{request.id, 0, "{}", ""}});
    for (std::size_t length = 0; length < bytes.size(); ++length)
      channel.receive(Payload(bytes).first(length));
    channel.receive(std::as_bytes(std::span("no message at all")));
  };
  const auto reply = line.ask("status", {}, 20ms);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Errc::timeout);
  EXPECT_THAT(reply.error().message, HasSubstr("is not understood"));
}

}  // namespace
}  // namespace heddle
