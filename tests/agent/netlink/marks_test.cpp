// What is written to netfilter has the form in which it is told back, so each can stand for the
// kernel before the other; the same damaged everywhere.
#include "agent/netlink/marks.h"

#include <gtest/gtest.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "agent/netlink/parse.h"

namespace heddle {
namespace {

const std::string kTable = RoutingRanges{}.mark_table();

// Of both families, those of IPv4 first.
ChangeMarks whole_table(int flows) {
  ChangeMarks change{.make_table = true, .ports_on = {"p1", "p2"}};
  for (int n = 0; n < flows; ++n)
    change.on.push_back(
        {.flow = {.source = IpAddress::v4(10, 1, 1, 2),
                  .destination = IpAddress::v4(10, 2, static_cast<std::uint8_t>(n / 250),
                                               static_cast<std::uint8_t>(n % 250 + 1)),
                  .source_port = static_cast<std::uint16_t>(50000 + n)},
         .mark = 18800U + static_cast<std::uint32_t>(n % 8)});
  for (int n = 0; n < flows; ++n) {
    MarkedFlow v6 = change.on[static_cast<std::size_t>(n)];
    for (IpAddress* const address : {&v6.flow.source, &v6.flow.destination}) {
      const std::uint8_t last = address->octets[3];
      *address = *IpAddress::parse("fd00:1:2::");
      address->octets[15] = last;
    }
    change.on.push_back(v6);
  }
  return change;
}

Batch written(const ChangeMarks& change) {
  Batch batch(1);
  append_marks(batch, change, kTable, {});
  return batch;
}

KernelMarkTable read_from(std::span<const std::byte> bytes, const std::string& table = kTable,
                          MarkFormat format = MarkFormat::present) {
  MarkTableReading reading(format, table);
  for_each_message(bytes, [&](const nlmsghdr& message) { reading.take(message); });
  return std::move(reading).finish();
}

// A list's length is told in 16 bits, so that 1,200 flows are several messages.
TEST(Marks, AreReadAsTheyWereWritten) {
  const ChangeMarks change = whole_table(1200);
  const KernelMarkTable read = read_from(written(change).bytes());
  EXPECT_TRUE(read.is_signed);
  EXPECT_TRUE(read.whole);
  EXPECT_TRUE(read.foreign.empty());
  EXPECT_EQ(read.ports, change.ports_on);
  EXPECT_EQ(read.flows, change.on);
}

TEST(Marks, OfAnotherTableOrFormatAreNotTaken) {
  const Batch batch = written(whole_table(3));
  for (const KernelMarkTable& read : {read_from(batch.bytes(), "heddle-77"),
                                      read_from(batch.bytes(), kTable, MarkFormat::former)}) {
    EXPECT_FALSE(read.is_signed);
    EXPECT_TRUE(read.flows.empty());
  }
}

TEST(Marks, AreNotWholeWithoutEachOfTheirParts) {
  const Batch batch = written(whole_table(3));
  std::size_t parts = 0;
  for_each_message(batch.bytes(), [&](const nlmsghdr&) { ++parts; });
  // The transaction's ends, the table, three sets, the chain, two rules, ports, flows of both
  // families.
  ASSERT_EQ(parts, 12U);
  for (std::size_t left_out = 1; left_out <= 7; ++left_out) {
    MarkTableReading reading(MarkFormat::present, kTable);
    std::size_t part = 0;
    for_each_message(batch.bytes(), [&](const nlmsghdr& message) {
      if (part++ != left_out)
        reading.take(message);
    });
    EXPECT_FALSE(std::move(reading).finish().whole) << "without part " << left_out;
  }
}

TEST(Marks, AreOneTransactionOfWhichTheLastPartIsAcknowledged) {
  const Batch batch = written(whole_table(3));
  EXPECT_TRUE(batch.transaction());
  EXPECT_EQ(batch.answered_sequence(), batch.last_sequence() - 1);
  std::vector<int> types;
  std::vector<bool> acknowledged;
  for_each_message(batch.bytes(), [&](const nlmsghdr& message) {
    types.push_back(message.nlmsg_type);
    acknowledged.push_back((message.nlmsg_flags & NLM_F_ACK) != 0);
  });
  EXPECT_EQ(types.front(), NFNL_MSG_BATCH_BEGIN);
  EXPECT_EQ(types.back(), NFNL_MSG_BATCH_END);
  EXPECT_EQ(std::ranges::count(acknowledged, true), 1);
  EXPECT_TRUE(acknowledged[acknowledged.size() - 2]);
}

// Without its end the kernel takes a transaction back after it has looked at all of it.
TEST(Marks, TrialNeverEndsItsTransaction) {
  for (const MarkTrial trial :
       {MarkTrial::takes_tables, MarkTrial::signs_tables, MarkTrial::signs_chains}) {
    Batch batch(1);
    append_mark_trial(batch, trial, "heddle-205-trial");
    for_each_message(batch.bytes(), [](const nlmsghdr& message) {
      EXPECT_NE(message.nlmsg_type, NFNL_MSG_BATCH_END);
    });
    EXPECT_EQ(batch.answered_sequence(), batch.last_sequence());
  }
}

// By type of message, whether it asks the kernel not to take along what is inside.
std::map<int, int> removals(const Batch& batch) {
  std::map<int, int> result;
  for_each_message(batch.bytes(), [&](const nlmsghdr& message) {
    result[message.nlmsg_type & 0xFF] = message.nlmsg_flags & NLM_F_NONREC;
  });
  return result;
}

TEST(SafetyRule1, ATableOfMarksIsDroppedByItsPartsSoThatTheKernelKeepsWhatElseIsInIt) {
  Batch batch(1);
  append_marks(batch, {.drop_table = true}, kTable,
               {.present = {.table = {},
                            .parts = {.chain = true, .rules = {7}, .sets = {"ports", "flows"}}}});
  auto types = removals(batch);
  EXPECT_EQ(types.count(NFT_MSG_DELRULE), 1U);
  EXPECT_EQ(types.count(NFT_MSG_DELSET), 1U);
  EXPECT_EQ(types.at(NFT_MSG_DELCHAIN), NLM_F_NONREC);
  EXPECT_EQ(types.at(NFT_MSG_DELTABLE), NLM_F_NONREC);
}

// Each message says of which family its table is.
TEST(Marks, LeaveAnEarlierVersionsTableForTheNewOneWithinOneTransaction) {
  ChangeMarks change = whole_table(1);
  change.drop_former = true;
  Batch batch(1);
  append_marks(batch, change, kTable,
               {.former = {.table = {},
                           .parts = {.chain = true, .rules = {7}, .sets = {"ports", "flows"}}}});
  std::vector<std::pair<int, int>> seen;
  for_each_message(batch.bytes(), [&](const nlmsghdr& message) {
    nfgenmsg head{};
    std::memcpy(&head, NLMSG_DATA(&message), sizeof head);
    seen.emplace_back(message.nlmsg_type & 0xFF, head.nfgen_family);
  });
  const auto at = [&](int type, int family) {
    return std::ranges::find(seen, std::pair(type, family)) - seen.begin();
  };
  const auto end = static_cast<std::ptrdiff_t>(seen.size());
  for (const int type : {NFT_MSG_DELRULE, NFT_MSG_DELCHAIN, NFT_MSG_DELSET, NFT_MSG_DELTABLE}) {
    EXPECT_LT(at(type, NFPROTO_IPV4), at(NFT_MSG_NEWTABLE, NFPROTO_INET)) << type;
    EXPECT_EQ(at(type, NFPROTO_INET), end) << type;
  }
  EXPECT_LT(at(NFT_MSG_NEWTABLE, NFPROTO_INET), end);
  EXPECT_EQ(at(NFT_MSG_DELSETELEM, NFPROTO_INET), end) << "what goes with its table";
}

TEST(SafetyRule1, WhatTheKernelCountsInATableBeyondWhatWasSeenIsForeign) {
  Batch batch(1);
  nfgenmsg head{.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0, .res_id = 0};
  const auto type = [](int message) {
    return static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8U | static_cast<unsigned>(message));
  };
  batch.begin(type(NFT_MSG_NEWTABLE), 0, head)
      .text(NFTA_TABLE_NAME, kTable)
      .network_number(NFTA_TABLE_USE, 3);
  batch.begin(type(NFT_MSG_NEWCHAIN), 0, head)
      .text(NFTA_CHAIN_TABLE, kTable)
      .text(NFTA_CHAIN_NAME, "marking");
  EXPECT_EQ(read_from(batch.bytes()).foreign,
            std::vector<std::string>{"objects or flowtables (2)"});
}

TEST(SafetyRule10, DamagedMessagesOfMarksYieldNothingAndCrashNothing) {
  const Batch batch = written(whole_table(20));
  const auto bytes = batch.bytes();
  constexpr unsigned kSeed = 7;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 20'000; ++round) {
    // A copy of just that length, so that a look beyond it is seen by a sanitizer.
    const std::size_t length = round % 2 == 0 ? bytes.size() : random() % bytes.size();
    std::vector<std::byte> damaged(bytes.begin(),
                                   bytes.begin() + static_cast<std::ptrdiff_t>(length));
    for (int hits = 0; hits < 3 && !damaged.empty(); ++hits)
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    const KernelMarkTable read = read_from(damaged);
    EXPECT_LE(read.flows.size(), 40U);
  }
}

}  // namespace
}  // namespace heddle
