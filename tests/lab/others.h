// What belongs to others on a leaf, as their own tools show it, and some of it to put there: what a
// test compares before and after heddle (safety rule 1). Only for *_test.cpp files.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "tests/lab/program_lab.h"

namespace heddle::lab {

inline std::string shown(const NetNamespace& where, const std::string& command) {
  const Output done = must(capture(
      {.words = {"/bin/sh", "-c", command}, .space = &where, .log = {}}, std::chrono::seconds{20}));
  EXPECT_EQ(done.status, 0) << command << ": " << done.errors;
  return done.text;
}

// Next hops with their groups and ids, routes and rules of every table, packet rules, line by line;
// what carries our protocol number is left out, as are the kernel's own routes, of which IPv6 makes
// some only a while after a link is up.
inline std::string state_of_others(const NetNamespace& where) {
  const RoutingRanges ours;
  const std::string number = fmt::format("proto {} ", ours.protocol);
  std::string state;
  std::istringstream lines(
      shown(where,
            "ip -N nexthop; ip -N -4 route show table all; ip -N -6 route show table all; "
            "ip -N -4 rule; ip -N -6 rule; nft list tables | grep -v ' " +
                ours.mark_table() +
                "$' | while read -r _ family name; do nft list table $family $name; done"));
  for (std::string line; std::getline(lines, line);) {
    if ((line + " ").find(number) == std::string::npos &&
        line.find(" proto 2 ") == std::string::npos)
      state += line + "\n";
  }
  return state;
}

// Neighbours of everything that is ours: the same destinations in other tables, the ids, tables and
// priorities beside our ranges, a table of packet rules with nearly our name.
inline void add_state_of_others(Leaf& leaf) {
  Netlink& n = leaf.at_leaf;
  const RoutingRanges ours;
  for (const std::uint32_t table : {77U, ours.table_base - 1, ours.table_base + ours.table_count})
    n.add_route(
        {.destination = net("10.2.1.2/32"), .nexthop_id = 2, .table = table, .protocol = kOther});
  for (const std::uint32_t id : {ours.nexthop_base - 1, ours.nexthop_base + ours.nexthop_count})
    n.set_nexthop(id, Leaf::gateway(1), "up1", Write::create, kOther);
  for (const std::uint32_t priority : {ours.rule_priority - 1, ours.rule_priority + 1})
    n.add_rule({.in_port = "p1", .table = 79, .priority = priority, .protocol = kOther},
               tested_family);
  must(n.commit());
  leaf.nft(
      "add table ip heddle-206; add map ip heddle-206 flows { type ipv4_addr : mark; }; "
      "add element ip heddle-206 flows { 10.2.1.2 : 18800 }; "
      "add table inet others; add chain inet others forward");
}

}  // namespace heddle::lab
