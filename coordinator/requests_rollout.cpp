// The roll-out's commands, and the log of decisions.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "coordinator/coordinator.h"
#include "coordinator/requests.h"
#include "coordinator/serve/answers_decide.h"

namespace heddle {

namespace {

constexpr std::size_t kDecisions = 20;
constexpr std::size_t kMostDecisions = 10'000;

template <class T>
std::optional<T> number(const std::string& text) {
  T value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size())
    return std::nullopt;
  return value;
}

// "--wave SOAK_SECONDS RACK... --wave ...".
Result<std::vector<Wave>> read_waves(const std::vector<std::string>& words) {
  std::vector<Wave> waves;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--wave") {
      const auto soak = i + 1 < words.size() ? number<std::uint32_t>(words[i + 1]) : std::nullopt;
      if (!soak)
        return fail(Errc::invalid_argument, "each wave begins with '--wave SECONDS'");
      waves.push_back({.racks = {}, .soak = std::chrono::seconds(*soak), .state = {}});
      ++i;
    } else if (waves.empty()) {
      return fail(Errc::invalid_argument, "rollout start --wave SECONDS RACK... ...");
    } else {
      waves.back().racks.push_back(words[i]);
    }
  }
  return waves;
}

}  // namespace

std::string Coordinator::rollout_shown() const {
  std::map<std::string, RackShown> racks;
  for (const NodeId node : topology_.nodes())
    for (const std::string& name : topology_.racks_of(node)) {
      if (!counts_for(name, node))
        continue;
      const auto [place, added] = racks.try_emplace(name);
      RackShown& rack = place->second;
      if (added)
        rack = {.name = name, .enabled = rollout_.allows(name), .confirmed = true};
      const AgentState* agent = broadcast_.find(topology_.name_of(node));
      rack.confirmed =
          rack.confirmed && agent != nullptr && agent->connected && broadcast_.converged(*agent);
      rack.pins += agent == nullptr ? 0 : agent->installed_pins;
    }
  std::vector<RackShown> list;
  for (auto& [name, rack] : racks)
    list.push_back(std::move(rack));
  return rollout_json(rollout_, list, parts_.clock.now());
}

Reply Coordinator::rollout_request(const Request& request, const Sender& sender) {
  const std::string verb = request.command.substr(request.command.find(' ') + 1);
  if (verb == "status" && request.arguments.empty())
    return good(rollout_shown());
  const Time now = parts_.clock.now();
  Rollout next = rollout_;
  Result<void> done;
  if (verb == "start") {
    Result<std::vector<Wave>> waves = read_waves(request.arguments);
    if (!waves)
      return bad(waves.error());
    for (const Wave& wave : *waves)
      for (const std::string& rack : wave.racks)
        if (std::ranges::find(topology_.leaves(), rack, &Topology::Leaf::rack) ==
            topology_.leaves().end())
          return bad(AnswerCode::not_found, fmt::format("no leaf is in a rack '{}'", rack));
    done = next.start(std::move(*waves), now);
  } else if (!request.arguments.empty()) {
    return bad(AnswerCode::usage, fmt::format("'{}' takes no argument", request.command));
  } else if (verb == "pause") {
    done = next.pause(now);
  } else if (verb == "resume") {
    done = next.resume(now);
  } else if (verb == "abort") {
    done = next.abort(now);
  } else if (verb == "rollback") {
    done = next.roll_back(now);
  } else {
    return bad(AnswerCode::usage,
               "rollout start --waves FILE, status, pause, resume, abort or rollback");
  }
  if (!done)
    return bad(done.error());
  if (const Result<void> kept =
          adopt(std::move(next), fmt::format("roll-out: {} by {}", verb, who(sender)));
      !kept)
    return bad(kept.error());
  return good(rollout_shown());
}

Reply Coordinator::log_request(const Request& request, const Sender& sender, bool& later) {
  std::size_t limit = kDecisions;
  WallTime after{};
  const std::vector<std::string>& words = request.arguments;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const bool has_value = i + 1 < words.size();
    const auto count = has_value ? number<std::size_t>(words[i + 1]) : std::nullopt;
    if (words[i] == "--last" && count && *count > 0)
      limit = std::min(*count, kMostDecisions);
    else if (words[i] == "--after" && has_value && number<std::int64_t>(words[i + 1]))
      after = WallTime(Duration(*number<std::int64_t>(words[i + 1])));
    else
      return bad(AnswerCode::usage, "plan log [--last N] [--after NEXT]");
  }
  const std::deque<DecisionRecord>& known = decisions_.recent();
  const auto of_memory = [this, limit, after] {
    std::vector<DecisionRecord> list;
    for (const DecisionRecord& one : decisions_.recent())
      if (one.wall > after)
        list.push_back(one);
    if (list.size() > limit)
      list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(limit));
    return list;
  };
  const bool reaches_back = !known.empty() && known.front().wall <= after;
  if (std::vector<DecisionRecord> list = of_memory(); reaches_back || list.size() >= limit)
    return good(decisions_json(list, {}));

  // What came before this start is the history's, which may be slow.
  later = true;
  const std::uint64_t read = ++readings_;
  reading_[read] = {.route = sender.route,
                    .id = request.id,
                    .deadline = parts_.clock.now() + settings_.answer_within};
  const std::weak_ptr<bool> alive = alive_;
  parts_.history.read_decisions(after, limit, [=, this](Result<std::vector<DecisionRecord>> found) {
    const auto reading = alive.expired() ? reading_.end() : reading_.find(read);
    if (alive.expired() || reading == reading_.end())
      return;
    // The newest is repeated more often than the history knows.
    std::vector<DecisionRecord> list = of_memory();
    if (found) {
      const WallTime ours = list.empty() ? WallTime::max() : list.front().wall;
      std::erase_if(*found, [&](const DecisionRecord& one) { return one.wall >= ours; });
      list.insert(list.begin(), found->begin(), found->end());
      if (list.size() > limit)
        list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(limit));
    }
    Reply answered = good(decisions_json(
        list, found ? std::string() : "the history cannot be read: " + found.error().message));
    answered.id = reading->second.id;
    reply(reading->second.route, std::move(answered));
    reading_.erase(reading);
  });
  return {};
}

}  // namespace heddle
