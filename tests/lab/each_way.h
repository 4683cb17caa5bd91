// Tests that are the same for every way of holding a path: a pin is one for what comes in by a
// port, for one destination, however it is held, and what they say is meant in the family that is
// tested. One thread.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "tests/lab/program_lab.h"

namespace heddle::lab {

struct Way {
  Enforcer enforcer{};
  Family family{};
};
// While it lives, the tests' words mean that way.
class Meaning {
 public:
  explicit Meaning(const Way& way) {
    tested_family = way.family;
    segments_tested = way.enforcer == Enforcer::srv6;
  }
  ~Meaning() {
    tested_family = Family::v4;
    segments_tested = false;
  }
  Meaning(const Meaning&) = delete;
  Meaning& operator=(const Meaning&) = delete;
};
inline Pin pin_by(Enforcer enforcer, const std::string& port, const std::string& destination,
                  const std::string& uplink) {
  switch (enforcer) {
    case Enforcer::flow_marks:
      return mark(Leaf::behind(port), destination, Leaf::kSourcePort, uplink);
    case Enforcer::host_routes:
      return own_pin(Leaf::as_own(port, destination), HostRoute{uplink});
    case Enforcer::srv6:
      return own_pin(
          Leaf::as_own(port, destination),
          SegmentList{{Leaf::segment(std::stoi(uplink.substr(2))), Leaf::last_segment()}});
    case Enforcer::port_tables:
      break;
  }
  return pin(port, destination, uplink);
}
class EachEnforcer : public testing::TestWithParam<Way> {
 protected:
  struct Case {
    explicit Case(Way way, int event_buffer_bytes = 4 << 20)
        : agent(leaf, state.path(), event_buffer_bytes, {}, programming(way.enforcer)) {}
    Leaf leaf;
    TemporaryDirectory state;
    Agent agent;
  };
  static Pin pin(const std::string& port, const std::string& destination,
                 const std::string& uplink) {
    return pin_by(GetParam().enforcer, port, destination, uplink);
  }
  static ProgramConfig config() { return programming(GetParam().enforcer); }
  static bool by_segments() { return GetParam().enforcer == Enforcer::srv6; }
  // Why a pin is not held whose uplink is gone, which the segments behind it are lost with: lists
  // of them name no uplink.
  static std::string lost_with(int uplink, const std::string& otherwise) {
    return by_segments() ? fmt::format("main offers no way to the segment {}",
                                       to_string(Leaf::segment(uplink)))
                         : otherwise;
  }

 private:
  Meaning meaning_{GetParam()};
};

// "HostRoutesIPv6"
inline std::string to_string(const Way& way) {
  std::string name;
  bool capital = true;
  for (const char c : std::string(name_of(way.enforcer))) {
    if (c != '-')
      name += capital ? static_cast<char>(std::toupper(c)) : c;
    capital = c == '-';
  }
  return name + (way.family == Family::v6 ? "IPv6" : "");
}
inline std::string name_of_case(const testing::TestParamInfo<Way>& info) {
  return to_string(info.param);
}
inline const std::vector<Way> kWaysOfLeaves{{Enforcer::port_tables, Family::v4},
                                            {Enforcer::flow_marks, Family::v4},
                                            {Enforcer::port_tables, Family::v6},
                                            {Enforcer::flow_marks, Family::v6}};
inline const std::vector<Way> kAllWays{
    {Enforcer::port_tables, Family::v4}, {Enforcer::flow_marks, Family::v4},
    {Enforcer::port_tables, Family::v6}, {Enforcer::flow_marks, Family::v6},
    {Enforcer::host_routes, Family::v4}, {Enforcer::host_routes, Family::v6},
    {Enforcer::srv6, Family::v4},        {Enforcer::srv6, Family::v6}};
inline auto every_enforcer() {
  return testing::ValuesIn(kWaysOfLeaves);
}
// Those whose pins lean on what `main` offers for their destination.
inline auto every_enforcer_and_hosts() {
  return testing::ValuesIn(kAllWays.begin(), kAllWays.end() - 2);
}
inline auto every_way() {
  return testing::ValuesIn(kAllWays);
}

}  // namespace heddle::lab
