// Watches the routing tables and marks of leaves through the kernel's notifications, and notes when
// what happened: an eye of its own on what agents do, to a fraction of a millisecond. One thread of
// its own; the functions may be called from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/core/address.h"
#include "common/core/plan.h"
#include "common/core/result.h"
#include "common/core/units.h"
#include "tests/lab/netns.h"

namespace heddle::lab {

struct TableEvent {
  enum class Kind : std::uint8_t {
    route_set,
    route_removed,
    nexthop_set,
    nexthop_removed,
    rule_set,
    rule_removed,
    mark_set,
    mark_removed,
  };
  Time at;
  std::string node;
  Kind kind{};
  std::uint8_t protocol{};
  std::uint32_t table{};       // of a route
  Prefix destination;          // of a route
  std::uint32_t nexthop_id{};  // of a route or a next hop
  ByQueuePair flow;            // of a mark
};

class PinWatch {
 public:
  struct Node {
    std::string name;
    const NetNamespace* space{};
  };
  static Result<std::unique_ptr<PinWatch>> start(const std::vector<Node>& nodes);
  ~PinWatch();
  PinWatch(const PinWatch&) = delete;
  PinWatch& operator=(const PinWatch&) = delete;

  std::vector<TableEvent> since(Time begin) const;
  // Waits until what has been seen since `begin` satisfies the condition; Errc::timeout.
  Result<void> await(Time begin, const std::function<bool(const std::vector<TableEvent>&)>& enough,
                     Duration patience) const;
  // Events that did not fit into a socket's buffer; what since() says has holes then.
  int overruns() const;

 private:
  struct Socket {
    int fd{-1};
    std::string node;
  };

  PinWatch() = default;
  void run();
  void read(const Socket& socket);

  Result<void> watch(const Node& node, int protocol, std::initializer_list<int> groups);

  std::vector<Socket> sockets_;
  int stop_{-1};
  mutable std::mutex mutex_;
  mutable std::condition_variable news_;
  std::vector<TableEvent> events_;
  int overruns_{0};
  std::thread thread_;
};

}  // namespace heddle::lab
