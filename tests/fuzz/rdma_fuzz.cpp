// Whatever RDMA netlink and sysfs answer, it is understood or passed over, and what is made of it
// is a report that the coordinator takes (safety rule 10). The input is a netlink dump up to the
// line "sysfs"; after it each line is a file's name, a blank and its text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "agent/observe/flow_merger.h"
#include "agent/observe/rdma_files.h"
#include "agent/observe/rdma_inventory.h"
#include "agent/observe/rdma_message.h"
#include "agent/report/reporter.h"
#include "common/core/check.h"
#include "common/wire/codec.h"

namespace heddle {
namespace {

constexpr std::string_view kMark = "\nsysfs\n";

class Files final : public FileTree {
 public:
  std::map<std::string, std::string> files;

  std::vector<std::string> list(const std::string&) const override { return {}; }
  Result<std::string> read(const std::string& file) const override {
    const auto found = files.find(file);
    if (found == files.end())
      return fail(Errc::not_found, file);
    return found->second;
  }
};

Files files_of(std::string_view text) {
  Files tree;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (const std::size_t blank = line.find(' '); blank != std::string_view::npos)
      tree.files[std::string(line.substr(0, blank))] = std::string(line.substr(blank + 1));
  }
  return tree;
}

void fuzz(std::string_view input) {
  const std::size_t mark = input.find(kMark);
  const std::string_view netlink = input.substr(0, mark);
  const Files files = files_of(mark == std::string_view::npos ? std::string_view{}
                                                              : input.substr(mark + kMark.size()));
  RdmaAnswer answer;
  parse_rdma(std::as_bytes(std::span(netlink.data(), netlink.size())), answer);
  RdmaLook look{.system = answer.system.value_or(RdmaSystem{}),
                .devices = answer.devices,
                .ports = answer.ports,
                .queue_pairs = answer.queue_pairs,
                .cm_ids = answer.cm_ids,
                .counters = answer.counters,
                .addresses = {},
                .port_counters = {},
                .incomplete = answer.damaged || answer.interrupted};
  for (const RdmaDevice& device : look.devices) {
    for (const RdmaAddress& address : read_addresses(files, device, 1))
      look.addresses.push_back(address);
    look.port_counters.push_back({device.index, 1, read_port_counters(files, device.name, 1)});
  }
  RdmaInventory inventory;
  FlowMerger merger;
  Reporter reporter(Time{}, false);
  for (int second = 1; second <= 2; ++second) {
    const Time now{std::chrono::seconds(second)};
    const RdmaView view = inventory.update(look, now);
    const auto reading = merger.merge(fail(Errc::unobservable, ""), view, true, now);
    const Report report = reporter.report(now, WallTime{}, reading, {});
    for (const FlowDelta& flow : report.flows)
      HEDDLE_CHECK(flow.local_qpn < 1U << 24U && flow.key.dest_qpn < 1U << 24U);
    // Names are the kernel's, and the coordinator refuses some; it must not fail over any.
    (void)decode(encode({"host", 1, report}));
  }
}

}  // namespace
}  // namespace heddle

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  heddle::fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
