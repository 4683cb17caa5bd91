// RDMA netlink on a libnl socket: one for requests, one for what the kernel announces. In the
// network namespace of the thread that makes it; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/observe/rdma_channel.h"

struct nl_sock;

namespace heddle {

class RdmaSocket final : public RdmaChannel {
 public:
  // Without RDMA netlink it is there all the same and says so each time it is asked, as the
  // kernel's modules may be loaded later.
  RdmaSocket();
  ~RdmaSocket() override;
  RdmaSocket(const RdmaSocket&) = delete;
  RdmaSocket& operator=(const RdmaSocket&) = delete;

  Result<std::vector<std::byte>> exchange(const RdmaRequest& request) override;
  Result<std::vector<std::byte>> announced() override;
  void let_go() override;

 private:
  struct Close {
    void operator()(nl_sock* socket) const;
  };
  using Socket = std::unique_ptr<nl_sock, Close>;

  Result<void> open();
  Result<std::size_t> receive(int fd, int flags);

  Socket requests_;
  Socket announcements_;
  std::uint32_t sequence_{};
  std::vector<std::byte> buffer_;
};

}  // namespace heddle
