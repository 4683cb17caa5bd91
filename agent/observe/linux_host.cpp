#include "agent/observe/linux_host.h"

#include <utility>

#include "agent/observe/directory_tree.h"
#include "agent/observe/ethtool_statistics.h"
#include "agent/observe/host_source.h"
#include "agent/observe/kprobe_watch.h"
#include "agent/observe/process_labels.h"
#include "agent/observe/rdma_socket.h"
#include "agent/observe/tc_bpf_source.h"

namespace heddle {
namespace {

constexpr const char* kRdmaFiles = "/sys/class/infiniband";

}  // namespace

struct LinuxHost::Parts {
  Parts(std::vector<std::string> patterns, const Clock& clock)
      : packets(std::move(patterns)), rdma(channel, files, statistics, clock, true) {}

  TcBpfSource packets;
  RdmaSocket channel;
  DirectoryTree files{kRdmaFiles};
  EthtoolStatistics statistics;
  RdmaObserver rdma;
  KprobeWatch connections;
  HostSource joined{packets, rdma, connections};
  LabelledSource all{joined};
};

LinuxHost::LinuxHost(std::vector<std::string> port_patterns, const Clock& clock)
    : parts_(std::make_unique<Parts>(std::move(port_patterns), clock)) {}

LinuxHost::~LinuxHost() = default;

std::vector<SourceCapability> LinuxHost::check(std::vector<std::string> port_patterns,
                                               const Clock& clock) {
  RdmaSocket channel;
  const DirectoryTree files(kRdmaFiles);
  const EthtoolStatistics statistics;
  RdmaObserver rdma(channel, files, statistics, clock, false);
  KprobeWatch connections;
  return {TcBpfSource::check(std::move(port_patterns)), rdma.capability(), connections.probe()};
}

std::vector<SourceCapability> LinuxHost::probe() {
  return parts_->all.probe();
}

void LinuxHost::links_changed() {
  parts_->all.links_changed();
}

Result<FlowReading> LinuxHost::read(Time now) {
  return parts_->all.read(now);
}

}  // namespace heddle
