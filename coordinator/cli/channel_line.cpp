#include "coordinator/cli/channel_line.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <variant>

#include "common/wire/codec.h"

namespace heddle {

ChannelLine::ChannelLine(EventLoop& loop, const Clock& clock, ClientChannel& channel,
                         std::string where)
    : loop_(loop), clock_(clock), channel_(channel), where_(std::move(where)) {
  // A new command line is a new sender: numbers that begin elsewhere keep a late reply to an
  // earlier one apart.
  last_id_ = static_cast<std::uint64_t>(clock_.now().time_since_epoch().count());
  channel_.on_message([this](Payload payload) { receive(payload); });
  channel_.on_connection([this](bool connected, const std::string& reason) {
    connected_ = connected;
    lost_ = connected ? std::nullopt : std::optional(reason);
  });
}

Result<Reply> ChannelLine::ask(const std::string& command,
                               const std::vector<std::string>& arguments, Duration timeout) {
  const Time deadline = clock_.now() + timeout;
  reply_.reset();
  garbled_.clear();
  // A failure from before this question is old news: the channel has been trying again since.
  lost_.reset();

  auto outcome = wait(deadline, [this] { return connected_; });
  const std::uint64_t id = ++last_id_;
  if (outcome)
    outcome = channel_.send(encode(Envelope{"cli", id, Request{id, command, arguments}}));
  if (outcome)
    outcome = wait(deadline, [this] { return reply_.has_value(); });
  if (outcome)
    return std::move(*reply_);

  const auto& [code, reason] = outcome.error();
  // The channel's reasons name the endpoint themselves.
  if (code != Errc::timeout)
    return fail(code, fmt::format("no coordinator: {}", reason));
  const double seconds = std::chrono::duration<double>(timeout).count();
  return fail(code,
              fmt::format("the coordinator at {} {} within {} s{}", where_,
                          connected_ ? "did not answer" : "could not be reached", seconds,
                          garbled_.empty() ? "" : "; what it sent is not understood: " + garbled_));
}

void ChannelLine::receive(Payload payload) {
  auto envelope = decode(payload);
  if (!envelope) {
    garbled_ = envelope.error().message;
    return;
  }
  if (auto* reply = std::get_if<Reply>(&envelope->message);
      reply != nullptr && reply->id == last_id_)
    reply_ = std::move(*reply);
}

Result<void> ChannelLine::wait(Time deadline, const std::function<bool()>& done) {
  while (!done()) {
    if (lost_)
      return fail(lost_->find("not authorised") != std::string::npos ? Errc::permission : Errc::io,
                  *lost_);
    const Time now = clock_.now();
    if (now >= deadline)
      return fail(Errc::timeout, "");
    if (auto turned = loop_.run_once(deadline - now); !turned)
      return turned;
  }
  return {};
}

}  // namespace heddle
