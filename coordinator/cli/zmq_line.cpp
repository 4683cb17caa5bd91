#include "coordinator/cli/zmq_line.h"

#include <fmt/format.h>

#include <utility>

#include "common/runtime/event_loop.h"
#include "common/runtime/system_clock.h"
#include "common/transport/keys.h"
#include "common/transport/zmq_channel.h"
#include "coordinator/cli/channel_line.h"

namespace heddle {
namespace {

class ZmqLine final : public CoordinatorLine {
 public:
  ZmqLine(std::unique_ptr<EventLoop> loop, std::unique_ptr<ClientChannel> channel,
          const std::string& where)
      : loop_(std::move(loop)),
        channel_(std::move(channel)),
        line_(*loop_, clock_, *channel_, where) {}

  Result<Reply> ask(const std::string& command, const std::vector<std::string>& arguments,
                    Duration timeout) override {
    return line_.ask(command, arguments, timeout);
  }

 private:
  SystemClock clock_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<ClientChannel> channel_;
  ChannelLine line_;
};

}  // namespace

Result<std::unique_ptr<CoordinatorLine>> open_zmq_line(const Settings& settings) {
  ClientOptions options;
  options.endpoint = settings.coordinator;
  options.allow_plain = settings.plain;
  options.limits.handshake = settings.timeout;
  if (!settings.plain) {
    auto keys = load_keys(settings.key);
    if (!keys)
      return fail(
          keys.error().code,
          fmt::format(
              "{}\nMake a key with 'heddle keygen' and name it with --key; its public half belongs "
              "in the coordinator's folder of authorised keys.",
              keys.error().message));
    auto server_key = load_public_key(settings.server_key);
    if (!server_key)
      return fail(
          server_key.error().code,
          fmt::format("{}\nCopy the coordinator's public key here and name it with --server-key.",
                      server_key.error().message));
    options.keys = std::move(*keys);
    options.server_key = std::move(*server_key);
  }
  auto loop = EventLoop::create();
  if (!loop)
    return tl::unexpected(loop.error());
  auto channel = ZmqClientChannel::connect(**loop, std::move(options));
  if (!channel)
    return tl::unexpected(channel.error());
  return std::make_unique<ZmqLine>(std::move(*loop), std::move(*channel), settings.coordinator);
}

}  // namespace heddle
