// Watches the kernel connect queue pairs, by a kernel program where RDMA's core changes their
// state. It changes nothing. It sees queue pairs that are connected while it watches; those before
// it are known by other ways only.
//
// Needs CAP_BPF and CAP_PERFMON, and the kernel's description of its types (BTF, /sys/kernel/btf).
// One thread.
#pragma once

#include <memory>

#include "agent/observe/rdma_channel.h"

namespace heddle {

class KprobeWatch final : public ConnectionWatch {
 public:
  KprobeWatch();
  ~KprobeWatch() override;
  KprobeWatch(const KprobeWatch&) = delete;
  KprobeWatch& operator=(const KprobeWatch&) = delete;

  // Begins to watch if it does not yet, as RDMA's module may have been loaded meanwhile, or
  // unloaded and loaded again.
  SourceCapability probe() override;
  std::vector<QpConnection> take() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
