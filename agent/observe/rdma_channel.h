// The ports to what observes RDMA: the kernel's RDMA netlink, and the watch on queue pairs as they
// are connected. One thread; an implementation lives as long as the source that uses it.
#pragma once

#include <cstddef>
#include <vector>

#include "agent/observe/rdma_message.h"
#include "agent/observe/rdma_values.h"
#include "common/core/messages.h"
#include "common/core/result.h"

namespace heddle {

class RdmaChannel {
 public:
  virtual ~RdmaChannel() = default;

  // Sends a request and hands out the messages that answer it, up to the end of the dump or to the
  // acknowledgement; a refusal is such an answer. Errc::unobservable if the kernel dropped some of
  // them, Errc::timeout if it fell silent, Errc::unsupported if it has no RDMA netlink.
  virtual Result<std::vector<std::byte>> exchange(const RdmaRequest& request) = 0;

  // What the kernel announced unasked since the last call. Errc::unobservable if some was lost.
  virtual Result<std::vector<std::byte>> announced() = 0;

  // Lets go of RDMA's core until it is asked again: while it is held it cannot be unloaded, as for
  // an upgrade of its drivers.
  virtual void let_go() = 0;
};

class ConnectionWatch {
 public:
  virtual ~ConnectionWatch() = default;

  virtual SourceCapability probe() = 0;
  // In their order, since the last call. Some may have been lost.
  virtual std::vector<QpConnection> take() = 0;
};

}  // namespace heddle
