// Records between values and the bytes that the history keeps. Messages keep their wire form, so
// that what is said of old wire versions holds for old records; what is only ours (plans, events)
// is a sequence of numbers in big-endian and length-prefixed texts after a format number.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/history/history.h"

namespace heddle {

std::string encode_plan(const PlanRecord& record);
Result<PlanRecord> decode_plan(std::string_view bytes);

std::string encode_decision(const DecisionRecord& record);
Result<DecisionRecord> decode_decision(std::string_view bytes);

std::string encode_message(const std::string& node, const Message& message);
Result<Envelope> decode_message(std::string_view bytes);

// Keys sort by kind, then by time, so that a span of time is a range and old records go by one
// deletion.
std::string report_key(WallTime wall, const std::string& node);
std::string link_key(WallTime wall, const std::string& node);
std::string event_key(WallTime wall, std::uint64_t number);
std::string decision_key(WallTime wall);
std::string plan_time_key(WallTime wall);
std::string plan_key(PlanVersion version);
WallTime wall_of_key(std::string_view key);

}  // namespace heddle
