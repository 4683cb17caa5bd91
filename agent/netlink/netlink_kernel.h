// The kernel's routing state over rtnetlink, and marks over netfilter's netlink: one socket each
// for requests, one for notifications. One thread, the event loop's: watch fd() for reading and
// call ready(). The network namespace is the one of the thread that calls open().
#pragma once

#include <functional>
#include <memory>

#include "agent/program/route_kernel.h"

namespace heddle {

class NetlinkKernel final : public RouteKernel, public PortSource {
 public:
  using Handler = std::function<void(const KernelEvent&)>;

  struct Options {
    RoutingRanges ranges;
    int event_buffer_bytes{4 << 20};  // of each notification socket
    bool marks{};                     // flows are to be marked: probe for it, watch the marks
    bool segments{};                  // packets are to be wrapped for segments: probe for it
  };
  static Result<std::unique_ptr<NetlinkKernel>> open(Options options);
  ~NetlinkKernel() override;

  void on_event(Handler handler);
  int fd() const;  // readable when notifications wait (after subscribe())
  // Reads every notification that waits, without blocking, and hands each to the handler.
  void ready();

  void use(const RoutingRanges& ranges) override;
  Result<void> probe() override;
  Result<void> subscribe() override;
  Result<KernelState> read() override;
  Result<KernelState> read_ours() override;
  Result<std::vector<ActionFailure>> apply(std::span<const Action> actions) override;
  Result<std::vector<LookupAnswer>> look_up(std::span<const Lookup> lookups) override;
  void resolve(std::uint32_t ifindex, const IpAddress& address) override;
  Result<std::vector<PortStatus>> ports() override;

 private:
  class Impl;
  explicit NetlinkKernel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
