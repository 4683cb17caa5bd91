#include "coordinator/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace heddle {

namespace {

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 15> kQuestions{
    "status",       "agents",    "flows",        "jobs",           "links",
    "plan show",    "plan diff", "plan explain", "plan preview",   "job list",
    "jobs explain", "plan log",  "fabric check", "rollout status", "drain status"};
constexpr Duration kRepeated = 10min;
constexpr std::uint32_t kRefusalsAMinute = 60;
constexpr std::size_t kRemembered = 4096;

}  // namespace

bool only_asks(const std::string& command) {
  return std::ranges::find(kQuestions, command) != kQuestions.end();
}

KeyRole Access::role_of(const Sender& sender, bool is_node) {
  if (sender.key_name.empty())
    return KeyRole::operator_key;
  if (sender.role != KeyRole::unstated)
    return sender.role;
  return is_node ? KeyRole::agent_key : KeyRole::operator_key;
}

std::optional<Access::Refusal> Access::refuse(const Sender& sender, bool is_node,
                                              const Request& request) {
  const KeyRole role = role_of(sender, is_node);
  std::string why;
  if (role == KeyRole::agent_key)
    why = fmt::format("the key of node '{}' may not give commands; use an operator's key",
                      sender.key_name);
  else if (role == KeyRole::viewer_key && !only_asks(request.command))
    why = fmt::format(
        "the key '{}' is a viewer's and may not give the command '{}'; use an operator's key",
        sender.key_name, request.command);
  else
    return std::nullopt;
  const bool is_news = keep_refusal({.wall = clock_.wall(),
                                     .key = sender.key_name,
                                     .role = role,
                                     .command = request.command,
                                     .arguments = request.arguments,
                                     .outcome = "refused: " + why});
  return Refusal{.why = std::move(why), .is_news = is_news};
}

void Access::ordered(const Sender& sender, bool is_node, const Request& request) {
  if (only_asks(request.command))
    return;
  // A number that is used again while its first order waits loses nothing: that one is on record.
  open_[{sender.route, request.id}] = {.wall = clock_.wall(),
                                       .key = sender.key_name,
                                       .role = role_of(sender, is_node),
                                       .command = request.command,
                                       .arguments = request.arguments,
                                       .outcome = {}};
}

void Access::waits(const std::string& route, std::uint64_t id) {
  const auto order = open_.find({route, id});
  if (order == open_.end())
    return;
  order->second.outcome = "ordered";
  log_.keep(order->second);
}

void Access::settled(const std::string& route, const Reply& reply) {
  const auto order = open_.find({route, reply.id});
  if (order == open_.end())
    return;
  AuditRecord record = std::move(order->second);
  open_.erase(order);
  record.wall = clock_.wall();
  record.outcome = reply.exit_code == 0 ? "done" : "failed: " + reply.error;
  log_.keep(record);
}

void Access::turned_away(std::string key, KeyRole role, std::string command, std::string argument,
                         const std::string& why) {
  keep_refusal({.wall = clock_.wall(),
                .key = std::move(key),
                .role = role,
                .command = std::move(command),
                .arguments = {std::move(argument)},
                .outcome = "refused: " + why});
}

void Access::keys_changed(std::string key, KeyRole role, std::string what) {
  log_.keep({.wall = clock_.wall(),
             .key = std::move(key),
             .role = role,
             .command = "key",
             .arguments = {},
             .outcome = std::move(what)});
}

bool Access::keep_refusal(AuditRecord record) {
  const Time now = clock_.now();
  std::erase_if(refused_, [&](const auto& entry) { return now - entry.second >= kRepeated; });
  std::string what = fmt::format("{}\n{}\n{}", record.key, record.command, record.outcome);
  for (const std::string& word : record.arguments)
    what += '\n' + word;
  if (refused_.size() >= kRemembered || !refused_.try_emplace(std::move(what), now).second)
    return false;
  if (now - minute_ >= 1min) {
    minute_ = now;
    in_minute_ = 0;
  }
  if (++in_minute_ > kRefusalsAMinute)
    return false;
  if (in_minute_ == kRefusalsAMinute)
    record.outcome += "; more refusals of this minute are not written";
  log_.keep(record);
  return true;
}

}  // namespace heddle
