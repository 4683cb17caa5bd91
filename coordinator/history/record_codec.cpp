#include "coordinator/history/record_codec.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <span>

#include "common/wire/codec.h"

namespace heddle {

namespace {

// Format 1 does not know since when pins are what they are.
constexpr std::uint8_t kPlanFormat = 2;
constexpr std::uint8_t kUndatedPlanFormat = 1;
constexpr std::uint8_t kDecisionFormat = 1;

void put(std::string& out, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>(value >> shift));
}
void put(std::string& out, double value) {
  put(out, std::bit_cast<std::uint64_t>(value));
}
void put(std::string& out, WallTime wall) {
  put(out, static_cast<std::uint64_t>(wall.time_since_epoch().count()));
}
void put(std::string& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  out.append(text);
}

// Reads what put() wrote; once something is missing, everything after it is, too.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t number() {
    if (bytes_.size() < 8) {
      failed_ = true;
      return 0;
    }
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i)
      value = value << 8 | static_cast<unsigned char>(bytes_[i]);
    bytes_.remove_prefix(8);
    return value;
  }
  double real() { return std::bit_cast<double>(number()); }
  WallTime wall() { return WallTime(Duration(static_cast<std::int64_t>(number()))); }
  std::string text() {
    const std::uint64_t size = number();
    if (size > bytes_.size()) {
      failed_ = true;
      bytes_ = {};
      return {};
    }
    std::string value(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return value;
  }
  // How many elements follow; each takes at least eight bytes, so a damaged count is noticed before
  // memory is taken for it.
  std::uint64_t count() {
    const std::uint64_t n = number();
    if (n > bytes_.size() / 8) {
      failed_ = true;
      return 0;
    }
    return n;
  }
  bool complete() const { return !failed_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool failed_{};
};

std::string time_key(char kind, WallTime wall, std::string_view rest) {
  std::string key(1, kind);
  put(key, wall);
  key.append(rest);
  return key;
}

}  // namespace

std::string encode_message(const std::string& node, const Message& message) {
  const std::vector<std::byte> bytes =
      encode(Envelope{.node = node, .sequence = 0, .message = message});
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<Envelope> decode_message(std::string_view bytes) {
  return decode(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

std::string encode_plan(const PlanRecord& record) {
  std::string out(1, static_cast<char>(kPlanFormat));
  put(out, record.wall);
  put(out, record.plan.version.epoch);
  put(out, record.plan.version.generation);
  put(out, std::string_view(record.reason));
  put(out, record.worst);
  put(out, record.mean);
  put(out, std::uint64_t{record.by_job.size()});
  for (const auto& [name, efficiency] : record.by_job) {
    put(out, std::string_view(name));
    put(out, efficiency);
  }
  put(out, std::uint64_t{record.moves.size()});
  for (const MoveRecord& move : record.moves)
    for (const std::string* text : {&move.flow, &move.from, &move.to, &move.reason})
      put(out, std::string_view(*text));
  put(out, std::uint64_t{record.plan.nodes.size()});
  for (const auto& [name, part] : record.plan.nodes)
    put(out, std::string_view(
                 encode_message(name, Snapshot{.plan = part, .digest = digest(part.pins)})));
  put(out, std::uint64_t{record.since.size()});
  for (const auto& [name, dates] : record.since) {
    put(out, std::string_view(name));
    put(out, std::uint64_t{dates.size()});
    for (const WallTime date : dates)
      put(out, date);
  }
  return out;
}

Result<PlanRecord> decode_plan(std::string_view bytes) {
  const auto format = bytes.empty() ? std::uint8_t{} : static_cast<std::uint8_t>(bytes.front());
  if (format != kPlanFormat && format != kUndatedPlanFormat)
    return fail(Errc::unsupported, "a plan record of another format");
  Reader in(bytes.substr(1));
  PlanRecord record;
  record.wall = in.wall();
  record.plan.version.epoch = in.number();
  record.plan.version.generation = in.number();
  record.reason = in.text();
  record.worst = in.real();
  record.mean = in.real();
  for (std::uint64_t n = in.count(); n > 0; --n) {
    std::string name = in.text();
    record.by_job[std::move(name)] = in.real();
  }
  for (std::uint64_t n = in.count(); n > 0; --n) {
    MoveRecord move;
    for (std::string* text : {&move.flow, &move.from, &move.to, &move.reason})
      *text = in.text();
    record.moves.push_back(std::move(move));
  }
  for (std::uint64_t n = in.count(); n > 0; --n) {
    Result<Envelope> part = decode_message(in.text());
    if (!part)
      return tl::unexpected(part.error());
    auto* snapshot = std::get_if<Snapshot>(&part->message);
    if (snapshot == nullptr)
      return fail(Errc::parse, "a plan record that holds something else than snapshots");
    record.plan.nodes[snapshot->plan.node] = std::move(snapshot->plan);
  }
  for (std::uint64_t n = format == kPlanFormat ? in.count() : 0; n > 0; --n) {
    std::vector<WallTime>& dates = record.since[in.text()];
    for (std::uint64_t k = in.count(); k > 0; --k)
      dates.push_back(in.wall());
  }
  if (!in.complete())
    return fail(Errc::parse, "a damaged plan record");
  return record;
}

std::string encode_decision(const DecisionRecord& record) {
  std::string out(1, static_cast<char>(kDecisionFormat));
  put(out, record.wall);
  put(out, record.until);
  put(out, record.times);
  put(out, std::string_view(record.outcome));
  put(out, std::string_view(record.reason));
  put(out, record.version.epoch);
  put(out, record.version.generation);
  put(out, std::uint64_t{record.judged});
  put(out, record.worst);
  put(out, record.mean);
  put(out, record.moves);
  return out;
}

Result<DecisionRecord> decode_decision(std::string_view bytes) {
  if (bytes.empty() || static_cast<std::uint8_t>(bytes.front()) != kDecisionFormat)
    return fail(Errc::unsupported, "a decision's record of another format");
  Reader in(bytes.substr(1));
  DecisionRecord record;
  record.wall = in.wall();
  record.until = in.wall();
  record.times = in.number();
  record.outcome = in.text();
  record.reason = in.text();
  record.version.epoch = in.number();
  record.version.generation = in.number();
  record.judged = in.number() != 0;
  record.worst = in.real();
  record.mean = in.real();
  record.moves = in.number();
  if (!in.complete())
    return fail(Errc::parse, "a damaged record of a decision");
  return record;
}

std::string report_key(WallTime wall, const std::string& node) {
  return time_key('r', wall, node);
}
std::string link_key(WallTime wall, const std::string& node) {
  return time_key('l', wall, node);
}
std::string event_key(WallTime wall, std::uint64_t number) {
  std::string rest;
  put(rest, number);
  return time_key('e', wall, rest);
}
std::string decision_key(WallTime wall) {
  return time_key('d', wall, {});
}
std::string plan_time_key(WallTime wall) {
  return time_key('t', wall, {});
}
std::string plan_key(PlanVersion version) {
  std::string key("p");
  put(key, version.epoch);
  put(key, version.generation);
  return key;
}
WallTime wall_of_key(std::string_view key) {
  return key.size() < 9 ? WallTime{} : Reader(key.substr(1)).wall();
}

}  // namespace heddle
