// One netlink socket: requests with their answers, dumps, or notifications. One thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "agent/netlink/batch.h"
#include "agent/netlink/parse.h"
#include "common/core/result.h"

struct nl_sock;

namespace heddle {

class NetlinkSocket {
 public:
  // In the network namespace of the calling thread. Buffer sizes beyond the system's limits need
  // CAP_NET_ADMIN; without it the limit is what one gets. Errc::unsupported if the kernel does not
  // speak the protocol.
  static Result<NetlinkSocket> open(int receive_buffer_bytes, int protocol = NETLINK_ROUTE);

  int fd() const;
  std::uint32_t port() const;  // what our requests are signed with
  Result<void> join(int group);
  Batch batch() const { return Batch(next_sequence_); }

  // Sends a batch and visits everything the kernel answers, up to the answer to the last message
  // that was to be acknowledged (the last of all if none was). Errc::timeout if the kernel falls
  // silent.
  Result<void> exchange(const Batch& batch, const MessageVisitor& visit);
  // A dump. True if the kernel says that the tables changed meanwhile, after some attempts. `begin`
  // is called before each attempt, to forget the one before. Errc::not_found if what it names is
  // not there.
  Result<bool> dump(const Batch& request, const std::function<void()>& begin,
                    const MessageVisitor& visit);
  // What waits, without blocking, one datagram. False if nothing does; Errc::unobservable if the
  // kernel dropped some.
  Result<bool> receive_waiting(const MessageVisitor& visit);

 private:
  struct Close {
    void operator()(nl_sock* socket) const;
  };
  Result<void> send(const Batch& batch);
  Result<std::span<const std::byte>> receive(int flags);
  Result<bool> dump_once(const Batch& request, const MessageVisitor& visit);

  std::unique_ptr<nl_sock, Close> socket_;
  std::vector<std::byte> buffer_;
  std::uint32_t next_sequence_{1};
};

}  // namespace heddle
