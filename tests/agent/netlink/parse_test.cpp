// Messages as a kernel sent them (tests/fuzz/seeds/netlink, recorded on Linux 6.18 from a namespace
// made for it), and the same cut off and damaged everywhere.
#include "agent/netlink/parse.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "agent/netlink/batch.h"
#include "agent/netlink/requests.h"
#include "tests/tree.h"

namespace heddle {
namespace {

const std::filesystem::path kRecorded =
    std::filesystem::path(HEDDLE_SOURCE_DIR) / "tests/fuzz/seeds/netlink";

// Aligned as a socket's buffer is.
class Bytes {
 public:
  explicit Bytes(const std::string& content)
      : words_(content.size() / 8 + 1), size_(content.size()) {
    std::memcpy(words_.data(), content.data(), content.size());
  }
  std::span<const std::byte> view() const {
    return {reinterpret_cast<const std::byte*>(words_.data()), size_};
  }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t size_;
};

std::string recorded(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class T>
std::vector<T> parsed(const char* name, std::optional<T> (*parse)(const nlmsghdr&)) {
  const Bytes bytes(recorded(kRecorded / name));
  std::vector<T> result;
  for_each_message(bytes.view(), [&](const nlmsghdr& message) {
    if (auto value = parse(message))
      result.push_back(std::move(*value));
  });
  return result;
}

IpAddress ip(const char* text) {
  return *IpAddress::parse(text);
}
Prefix net(const char* text) {
  return *Prefix::parse(text);
}

TEST(Parse, UnderstandsLinksAndWhoseTheyAre) {
  const auto links = parsed("dump-link", parse_link);
  const auto p2 =
      std::find_if(links.begin(), links.end(), [](const Link& l) { return l.name == "p2"; });
  ASSERT_NE(p2, links.end());
  EXPECT_NE(p2->master, 0U);
  EXPECT_EQ(p2->master_kind, "bridge");
  EXPECT_FALSE(p2->up);
  const auto all = parsed("dump-everything", parse_link);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(all[0].up && all[0].carrier && all[0].resolves);
}

TEST(Parse, UnderstandsNextHopsGroupsAndBlackholes) {
  const auto next_hops = parsed("dump-nexthop", parse_next_hop);
  ASSERT_EQ(next_hops.size(), 5U);
  EXPECT_EQ(next_hops[0].id, 1U);
  EXPECT_EQ(next_hops[0].protocol, RTPROT_BGP);
  EXPECT_EQ(next_hops[0].hop->gateway, ip("10.101.1.2"));
  EXPECT_EQ(next_hops[1].hop->gateway, ip("fe80::1"));
  EXPECT_FALSE(next_hops[2].hop.has_value());
  EXPECT_EQ(next_hops[3].id, 100U);
  EXPECT_EQ(next_hops[3].members, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(next_hops[4].protocol, 205);
}

TEST(Parse, UnderstandsTheKindsOfRoutes) {
  std::map<std::string, KernelRoute> routes;
  for (KernelRoute& route : parsed("dump-route", parse_route)) {
    if (route.table == RT_TABLE_MAIN || route.table == 18800)
      routes[to_string(route.destination)] = std::move(route);
  }
  EXPECT_EQ(routes.at("10.2.0.0/16").next_hop_id, 100U);
  EXPECT_EQ(routes.at("10.2.0.0/16").protocol, RTPROT_BGP);
  const auto& legacy = routes.at("10.3.0.0/16").hops;
  ASSERT_EQ(legacy.size(), 2U);
  EXPECT_EQ(legacy[0].gateway, ip("10.101.1.2"));
  EXPECT_EQ(legacy[1].gateway, ip("10.1.1.2"));
  EXPECT_EQ(routes.at("10.4.0.0/16").hops.at(0).gateway, ip("fe80::1"));
  EXPECT_EQ(routes.at("10.4.0.0/16").metric, 20U);
  EXPECT_FALSE(routes.at("10.5.0.0/16").unicast);
  EXPECT_TRUE(routes.at("10.6.0.0/16").hops.at(0).onlink);
  EXPECT_EQ(routes.at("10.2.1.2/32").table, 18800U);
  EXPECT_EQ(routes.at("10.101.1.0/30").local_address, ip("10.101.1.1"));
  EXPECT_FALSE(routes.at("10.101.1.0/30").hops.at(0).gateway.has_value());
}

// No device here offloads routes: the recorded message with the kernel's flag set by hand.
TEST(Parse, SeesThatTheHardwareRefusedARoute) {
  std::string bytes = recorded(kRecorded / "dump-route");
  auto* const head = reinterpret_cast<rtmsg*>(bytes.data() + NLMSG_HDRLEN);
  const unsigned flags = RTM_F_OFFLOAD_FAILED;
  std::memcpy(&head->rtm_flags, &flags, sizeof flags);
  const Bytes aligned(bytes);
  std::vector<KernelRoute> routes;
  for_each_message(aligned.view(), [&](const nlmsghdr& message) {
    if (auto route = parse_route(message))
      routes.push_back(*route);
  });
  ASSERT_GE(routes.size(), 2U);
  EXPECT_TRUE(routes[0].offload_failed);
  EXPECT_FALSE(routes[1].offload_failed);
}

// Nor does any forward by an ASIC: messages built after linux/rtnetlink.h and linux/if_link.h.
TEST(Parse, SeesAnAsicAndItsProofInMessagesBuiltAfterTheUapiHeaders) {
  Batch batch(1);
  constexpr std::array<std::uint8_t, 3> kSwitch{0x00, 0x0a, 0xf7};
  ifinfomsg port{};
  port.ifi_index = 4;
  batch.begin(RTM_NEWLINK, 0, port)
      .text(IFLA_IFNAME, "up1")
      .attribute(IFLA_PHYS_SWITCH_ID, kSwitch.data(), kSwitch.size());
  for (const unsigned flags :
       {0U, unsigned{RTM_F_OFFLOAD}, unsigned{RTM_F_TRAP}, unsigned{RTM_F_OFFLOAD_FAILED}}) {
    rtmsg head{};
    head.rtm_family = AF_INET;
    head.rtm_type = RTN_UNICAST;
    head.rtm_flags = flags;
    batch.begin(RTM_NEWROUTE, 0, head).number(RTA_OIF, 4);
  }
  std::vector<Link> links;
  std::vector<KernelRoute> routes;
  for_each_message(batch.bytes(), [&](const nlmsghdr& message) {
    if (auto link = message.nlmsg_type == RTM_NEWLINK ? parse_link(message) : std::nullopt)
      links.push_back(*link);
    if (auto route = message.nlmsg_type == RTM_NEWROUTE ? parse_route(message) : std::nullopt)
      routes.push_back(*route);
  });
  ASSERT_EQ(links.size(), 1U);
  EXPECT_EQ(links[0].switch_id, "000af7");
  ASSERT_EQ(routes.size(), 4U);
  // A trapped route is one for which the ASIC asks the processor: no proof.
  EXPECT_EQ((std::vector<bool>{routes[0].offloaded, routes[1].offloaded, routes[2].offloaded,
                               routes[3].offloaded}),
            (std::vector<bool>{false, true, false, false}));
  EXPECT_TRUE(routes[3].offload_failed && !routes[1].offload_failed);
  // A port of the kernel's own has no such number.
  for (const Link& link : parsed("dump-link", parse_link))
    EXPECT_EQ(link.switch_id, "");
}

TEST(Parse, TellsAPlainRuleFromOneWithMoreSelectors) {
  const auto rules = parsed("dump-rule", parse_rule);
  const auto at = [&](std::uint32_t priority) {
    return *std::find_if(rules.begin(), rules.end(),
                         [&](const KernelRule& r) { return r.priority == priority; });
  };
  EXPECT_EQ(
      at(1880),
      (KernelRule{
          .priority = 1880, .protocol = 205, .table = 18800, .in_port = "p1", .plain = true}));
  EXPECT_FALSE(at(900).plain);
  EXPECT_EQ(at(900).table, 77U);
}

TEST(Parse, UnderstandsNeighboursSettingsCountersAndAnswers) {
  const auto neighbours = parsed("dump-neighbour", parse_neighbour);
  const auto found = std::find_if(neighbours.begin(), neighbours.end(),
                                  [](const Neighbour& n) { return n.address == ip("10.101.1.2"); });
  ASSERT_NE(found, neighbours.end());
  EXPECT_EQ(found->state, Resolution::resolved);
  const auto settings = parsed("dump-netconf", parse_settings);
  EXPECT_TRUE(std::any_of(settings.begin(), settings.end(),
                          [](const NetworkSettings& s) { return s.reverse_path == 2; }));
  EXPECT_GE(parsed("dump-stats", parse_counters).size(), 5U);
  const auto answers = parsed("answer-refused", parse_answer);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].error, EINVAL);
}

// The least number of all cannot be negated; a success it is not.
TEST(SafetyRule10, AnErrorNumberThatTheKernelDoesNotHaveIsNoSuccess) {
  const std::string refused = recorded(kRecorded / "answer-refused");
  for (const std::int32_t error : {INT32_MIN, -4096, 1, INT32_MAX}) {
    std::string bytes = refused;
    std::memcpy(bytes.data() + NLMSG_HDRLEN + offsetof(nlmsgerr, error), &error, sizeof error);
    std::vector<Answer> answers;
    const Bytes aligned(bytes);
    for_each_message(aligned.view(), [&](const nlmsghdr& m) {
      if (const auto answer = parse_answer(m))
        answers.push_back(*answer);
    });
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].error, EPROTO) << error;
  }
}

TEST(Parse, TellsAReplacedRouteFromAnAddedAndARemovedOne) {
  const auto event_of = [](std::uint16_t type, std::uint16_t flags) {
    Batch batch(1);
    append_action(batch, MoveRoute{{.table = 18800, .destination = ip("10.2.1.2"), .next_hop = 5}},
                  {});
    std::string bytes(reinterpret_cast<const char*>(batch.bytes().data()), batch.bytes().size());
    std::memcpy(bytes.data() + offsetof(nlmsghdr, nlmsg_type), &type, sizeof type);
    std::memcpy(bytes.data() + offsetof(nlmsghdr, nlmsg_flags), &flags, sizeof flags);
    const Bytes aligned(bytes);
    std::optional<KernelEvent> event;
    for_each_message(aligned.view(), [&](const nlmsghdr& m) { event = parse_event(m); });
    return std::get<RouteEvent>(event.value());
  };
  EXPECT_EQ(event_of(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL).kind, RouteEvent::Kind::added);
  EXPECT_EQ(event_of(RTM_NEWROUTE, NLM_F_REPLACE).kind, RouteEvent::Kind::replaced);
  EXPECT_EQ(event_of(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND).kind, RouteEvent::Kind::appended);
  EXPECT_EQ(event_of(RTM_DELROUTE, 0).kind, RouteEvent::Kind::removed);
  EXPECT_EQ(event_of(RTM_DELROUTE, 0).route.destination, net("10.2.1.2/32"));
}

std::size_t parse_everything(const std::string& content) {
  const Bytes bytes(content);
  std::size_t understood = 0;
  for_each_message(bytes.view(), [&](const nlmsghdr& m) {
    understood +=
        parse_link(m).has_value() + parse_next_hop(m).has_value() + parse_route(m).has_value() +
        parse_rule(m).has_value() + parse_neighbour(m).has_value() + parse_settings(m).has_value() +
        parse_counters(m).has_value() + parse_answer(m).has_value() + parse_event(m).has_value();
  });
  return understood;
}

TEST(SafetyRule10, NoMessageCutOffAnywhereIsReadBeyondItsEnd) {
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(kRecorded)) {
    const std::string whole = recorded(file.path());
    const std::size_t understood = parse_everything(whole);
    EXPECT_GE(understood, 1U) << file.path();
    // The last message is incomplete at any shorter length.
    for (std::size_t length = 0; length < whole.size(); ++length)
      ASSERT_LE(parse_everything(whole.substr(0, length)), understood) << file.path();
    ++files;
  }
  EXPECT_GE(files, 20U);
}

TEST(SafetyRule10, NoDamagedMessageIsReadBeyondItsEnd) {
  constexpr std::uint32_t kSeed = 4791;
  std::mt19937 random(kSeed);
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::size_t understood = 0;
  for (const auto& file : std::filesystem::directory_iterator(kRecorded)) {
    const std::string whole = recorded(file.path());
    for (int round = 0; round < 200; ++round) {
      std::string damaged = whole;
      for (int hits = 1 + static_cast<int>(random() % 4); hits > 0; --hits)
        damaged[random() % damaged.size()] = static_cast<char>(random());
      understood += parse_everything(damaged);
    }
  }
  // Damage in one place leaves most of the rest readable; that nothing was would mean nothing was
  // tried.
  EXPECT_GT(understood, 1000U);
}

TEST(Batch, HoldsMessagesThatReadBackAsTheyWereMeant) {
  Batch batch(10);
  append_action(
      batch,
      AddNextHop{{.id = 1880000001, .ifindex = 7, .gateway = ip("10.101.1.2"), .onlink = true}},
      {});
  append_action(
      batch, AddRoute{{.table = 18800, .destination = ip("10.2.1.2"), .next_hop = 1880000001}}, {});
  append_action(batch, AddRule{{.in_port = "p1", .table = 18800}}, {});
  batch.acknowledge_last();
  EXPECT_EQ(batch.count(), 3U);
  EXPECT_EQ(batch.last_sequence(), 12U);
  std::vector<nlmsghdr> heads;
  std::optional<KernelNextHop> next_hop;
  std::optional<KernelRoute> route;
  std::optional<KernelRule> rule;
  for_each_message(batch.bytes(), [&](const nlmsghdr& m) {
    heads.push_back(m);
    if (heads.size() == 1)
      next_hop = parse_next_hop(m);
    if (heads.size() == 2)
      route = parse_route(m);
    if (heads.size() == 3)
      rule = parse_rule(m);
  });
  ASSERT_EQ(heads.size(), 3U);
  EXPECT_EQ(heads[0].nlmsg_flags & NLM_F_ACK, 0);
  EXPECT_EQ(heads[2].nlmsg_flags & NLM_F_ACK, NLM_F_ACK);
  // Never over what is there already.
  EXPECT_EQ(heads[1].nlmsg_flags & (NLM_F_CREATE | NLM_F_EXCL | NLM_F_REPLACE),
            NLM_F_CREATE | NLM_F_EXCL);
  ASSERT_TRUE(next_hop && route && rule);
  EXPECT_EQ(next_hop->hop, (Hop{.ifindex = 7, .gateway = ip("10.101.1.2"), .onlink = true}));
  EXPECT_EQ(next_hop->protocol, RoutingRanges{}.protocol);
  EXPECT_EQ(route->destination, net("10.2.1.2/32"));
  EXPECT_EQ(route->next_hop_id, 1880000001U);
  EXPECT_TRUE(rule->plain);
  EXPECT_EQ(rule->in_port, "p1");
}

}  // namespace
}  // namespace heddle
