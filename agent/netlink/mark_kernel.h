// The marks of flows in a real kernel, over netfilter's netlink: one socket for requests, one for
// notifications. A part of NetlinkKernel; one thread, in the network namespace of the one that
// calls open().
#pragma once

#include <optional>
#include <string>

#include "agent/netlink/marks.h"
#include "agent/netlink/socket.h"
#include "agent/program/route_kernel.h"

namespace heddle {

class MarkKernel {
 public:
  // A kernel without packet rules has no marks; that is no error.
  static Result<MarkKernel> open(int request_buffer_bytes);

  // Errc::unsupported, Errc::permission, with what to do about it. A kernel that could once still
  // can, and each trial makes it wait some milliseconds, as does whoever asks; that the permission
  // is still there is seen by what else is tried of the kernel.
  Result<void> probe(const std::string& table);
  Result<void> subscribe(int event_buffer_bytes);
  int fd() const;  // after subscribe()
  enum class News : std::uint8_t { none, changed, lost };
  // Reads the notifications that wait; of changes by others, those of this table count.
  News ready(const std::string& table);

  // As it is; as it was when last seen where reading is not permitted, which state.marks_hidden
  // tells; none if there is none. Sets state.inconsistent when it changed meanwhile.
  Result<std::optional<KernelMarkTable>> read(MarkFormat format, const std::string& table,
                                              KernelState& state);
  // The kernel's refusal, after which nothing was changed.
  Result<std::optional<Answer>> apply(const ChangeMarks& change, const std::string& table);

 private:
  MarkKernel() = default;
  Result<std::optional<Answer>> transact(const Batch& batch);

  std::optional<NetlinkSocket> requests_;  // none where the kernel does not speak netfilter
  std::optional<NetlinkSocket> events_;
  SeenMarkTables seen_;
  bool proven_{};  // by a probe
};

}  // namespace heddle
