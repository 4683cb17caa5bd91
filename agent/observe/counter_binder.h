// Decides which queue pairs get a counter of their own from us. It touches nothing that somebody
// else set up: no queue pair that has a counter, no port in automatic mode, no optional counter
// that was on before; and what it did, it can undo (safety rule 1). Rate-limited, because each
// binding is a command to the NIC.
//
// Pure: looks come in, requests for the kernel go out. One thread; lives as long as its observer.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/observe/rdma_values.h"

namespace heddle {

class CounterBinder {
 public:
  static constexpr std::size_t kMostAtOnce = 32;  // for each look

  using Port = std::pair<std::uint32_t, std::uint32_t>;  // device and port
  struct Binding {
    Port port;
    std::uint32_t qpn{};
    std::uint32_t counter{};  // once it is bound
    auto operator<=>(const Binding&) const = default;
  };
  struct Switch {
    Port port;
    std::vector<std::uint32_t> on;  // all that shall be on from now
    bool operator==(const Switch&) const = default;
  };

  // What the port's driver offers, as asked once. With neither of the byte counters nothing is ever
  // bound there.
  void offers(Port port, const std::vector<OptionalCounter>& counters);
  bool asked(Port port) const { return ports_.contains(port); }
  bool counts_bytes(Port port) const;

  // The optional counters to switch on where that is still to be done.
  std::vector<Switch> to_switch_on(const RdmaLook& look) const;
  void switched_on(Port port);
  // The kernel refused.
  void not_switched(Port port);
  // It did not answer: to be asked for again, and to be switched back all the same.
  void perhaps_switched(Port port);
  // What to bind now, after taking note of what became of what is bound. A look that did not read a
  // device's counters whole changes nothing there.
  std::vector<Binding> to_bind(const RdmaLook& look);
  void bound(const Binding& binding);
  // The kernel refused: not asked for again.
  void refused(const Binding& binding);
  // It did not answer: the next look that reads the counters tells.
  void perhaps_bound(const Binding& binding);
  bool unsure() const { return !perhaps_.empty(); }

  // What is bound by us now; and the optional counters as they were, given those that are on now.
  std::vector<Binding> ours() const { return {ours_.begin(), ours_.end()}; }
  std::vector<Port> switched() const;
  Switch back(Port port, const std::vector<OptionalCounter>& now) const;

 private:
  struct Offer {
    std::vector<OptionalCounter> counters;
    bool counts_bytes{};
    bool on{};                     // the byte counters, by us or by others
    std::set<std::uint32_t> ours;  // those that we switched on
  };

  std::map<Port, Offer> ports_;
  using Pair = std::pair<Port, std::uint32_t>;  // a queue pair by its number

  using CounterOf = std::map<std::pair<std::uint32_t, std::uint32_t>, const QpCounter*>;

  void settle(const RdmaLook& look, const CounterOf& counter_of);

  std::set<Binding> ours_;
  std::set<Pair> refused_;
  std::set<Pair> perhaps_;
};

}  // namespace heddle
