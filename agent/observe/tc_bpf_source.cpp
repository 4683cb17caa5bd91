#include "agent/observe/tc_bpf_source.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <net/if.h>
#include <roce_egress.skel.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/observe/roce_egress.h"
#include "agent/observe/tc_filter.h"

namespace heddle {
namespace {

constexpr const char* kName = "ebpf";
// libbpf names a filter by its program, "heddle_egress:[17]"; by this we recognise what an agent
// before us left behind.
constexpr std::string_view kOurName = "heddle_egress:";
// Our place among the filters of a hook.
constexpr std::uint32_t kPriority = 18800;
constexpr std::uint32_t kHandle = 1;
// A training job may pause for minutes (evaluation, a checkpoint) and go on with the same queue
// pairs.
constexpr std::chrono::minutes kIdle{15};
// The whole table by one call, so that an interval ends for all of it at once.
constexpr std::size_t kBatch = HEDDLE_FLOW_ENTRIES;

std::string error_text(int negative_errno) {
  return std::strerror(-negative_errno);
}

IpAddress address(const __u8 (&octets)[16], __u8 ip_version) {
  IpAddress result{.family = ip_version == 4 ? Family::v4 : Family::v6, .octets = {}};
  std::copy(std::begin(octets), std::end(octets), result.octets.begin());
  return result;
}

Time boot_time(std::uint64_t nanoseconds) {
  return Time{Duration{static_cast<Duration::rep>(nanoseconds)}};
}

bpf_tc_hook egress_of(int ifindex) {
  bpf_tc_hook hook{};
  hook.sz = sizeof(hook);
  hook.ifindex = ifindex;
  hook.attach_point = BPF_TC_EGRESS;
  return hook;
}

bpf_tc_opts our_place() {
  bpf_tc_opts opts{};
  opts.sz = sizeof(opts);
  opts.handle = kHandle;
  opts.priority = kPriority;
  return opts;
}

std::optional<bpf_prog_info> program_info(int fd) {
  bpf_prog_info info{};
  __u32 length = sizeof(info);
  if (bpf_obj_get_info_by_fd(fd, &info, &length) != 0)
    return std::nullopt;
  return info;
}

}  // namespace

class TcBpfSource::Impl {
 public:
  Impl(std::vector<std::string> patterns, bool only_look)
      : patterns_(std::move(patterns)), only_look_(only_look) {
    // libbpf explains itself on stderr; the reasons that matter are in our results.
    libbpf_set_print(nullptr);
    load();
    if (skeleton_)
      follow_ports();
    gap_ = false;  // before the beginning nothing was promised
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    for (const auto& [ifindex, name] : watched_)
      detach(ifindex);
    if (skeleton_)
      roce_egress::destroy(skeleton_);
  }

  SourceCapability capability() const {
    if (!skeleton_)
      return {kName, false, load_failure_};
    if (watched_.empty()) {
      return {kName, false,
              port_failures_.empty()
                  ? fmt::format("no interface matches {}", fmt::join(patterns_, ", "))
                  : port_failures_};
    }
    return {kName, true, port_failures_};
  }

  // Watches every port that matches now, and no other.
  void follow_ports() {
    if (!skeleton_)
      return;
    std::map<int, std::string> present;
    if (struct if_nameindex* list = if_nameindex()) {
      for (const struct if_nameindex* i = list; i->if_index != 0; ++i) {
        if (matches(i->if_name))
          present.emplace(static_cast<int>(i->if_index), i->if_name);
      }
      if_freenameindex(list);
    } else {
      return;  // no memory or no socket now; the next reading tries again
    }

    for (auto port = watched_.begin(); port != watched_.end();) {
      const auto same = present.find(port->first);
      if (same != present.end() && same->second == port->second) {
        ++port;
        continue;
      }
      // Gone, or renamed. What it counted since the last reading is lost with its name.
      gap_ = true;
      if (same == present.end())
        detach(port->first);
      port = watched_.erase(port);
    }

    port_failures_.clear();
    for (const auto& [ifindex, name] : present) {
      const Result<TcFilter> there = filters_.find(ifindex, kPriority, kHandle);
      if (there && there->program_id == program_id_) {
        watched_.emplace(ifindex, name);
        continue;
      }
      // New, or somebody removed our filter: either way packets have passed unseen.
      gap_ = true;
      watched_.erase(ifindex);
      if (const Result<void> attached = attach(ifindex, there)) {
        watched_.emplace(ifindex, name);
      } else {
        if (!port_failures_.empty())
          port_failures_ += "; ";
        port_failures_ += fmt::format("{}: {}", name, attached.error().message);
      }
    }
  }

  Result<FlowReading> read(Time now) {
    follow_ports();
    const SourceCapability able = capability();
    if (!able.usable)
      return fail(Errc::unobservable, able.reason);

    FlowReading reading{.source = kName, .gap = false, .flows = {}};
    const std::uint32_t closed = skeleton_->data->heddle_interval;
    skeleton_->data->heddle_interval = closed + 1;
    const std::uint64_t created =
        __atomic_load_n(&skeleton_->bss->heddle_created, __ATOMIC_RELAXED);

    reading.flows.reserve(last_found_);
    std::uint64_t found = 0;
    std::vector<heddle_flow_key> finished;
    const Result<void> walked =
        walk([&](const heddle_flow_key& key, const heddle_flow_value& value) {
          ++found;
          const auto port = watched_.find(static_cast<int>(key.ifindex));
          if (port == watched_.end() || now - boot_time(value.last_seen_boot_ns) > kIdle) {
            finished.push_back(key);
            return;
          }
          const std::uint32_t slot = closed & 1;
          reading.flows.push_back({
              .source = address(key.source, key.ip_version),
              .destination = address(key.destination, key.ip_version),
              .source_port = key.source_port,
              .dest_qpn = key.dest_qpn,
              .out_port = port->second,
              .first_seen = boot_time(value.first_seen_boot_ns),
              .bytes = {value.bytes},
              .packets = value.packets,
              .message_length = {value.interval[slot] == closed ? value.longest_message[slot] : 0},
          });
        });
    if (!walked) {
      gap_ = true;  // the lengths of the interval just closed are gone
      return tl::unexpected(walked.error());
    }

    // Entries made after `created` was read may hide an eviction now, but not at the next reading.
    const std::int64_t evicted = static_cast<std::int64_t>(created - removed_ - found);
    const std::uint64_t unrecorded =
        __atomic_load_n(&skeleton_->bss->heddle_unrecorded, __ATOMIC_RELAXED);
    reading.gap = gap_ || !port_failures_.empty() || evicted > evicted_ || unrecorded > unrecorded_;
    evicted_ = std::max(evicted, evicted_);
    unrecorded_ = unrecorded;
    gap_ = false;
    last_found_ = found;

    // A packet that arrives between the reading and here is lost with its entry: after that long a
    // silence it makes no elephant.
    const int map = bpf_map__fd(skeleton_->maps.heddle_flows);
    for (const heddle_flow_key& key : finished) {
      if (bpf_map_delete_elem(map, &key) == 0)
        ++removed_;
    }
    return reading;
  }

 private:
  bool matches(const char* name) const {
    return std::ranges::any_of(patterns_, [name](const std::string& pattern) {
      return fnmatch(pattern.c_str(), name, 0) == 0;
    });
  }

  void load() {
    roce_egress* skeleton = roce_egress::open();
    if (!skeleton) {
      load_failure_ = fmt::format("the kernel program cannot be opened: {}", std::strerror(errno));
      return;
    }
    if (const int error = roce_egress::load(skeleton); error != 0) {
      load_failure_ =
          error == -EPERM
              ? "the kernel refuses to load the program: CAP_BPF and CAP_NET_ADMIN are needed"
              : fmt::format("the kernel refuses to load the program: {}", error_text(error));
      roce_egress::destroy(skeleton);
      return;
    }
    const std::optional<bpf_prog_info> info =
        program_info(bpf_program__fd(skeleton->progs.heddle_egress));
    if (!info) {
      load_failure_ = fmt::format("the kernel program has no id: {}", std::strerror(errno));
      roce_egress::destroy(skeleton);
      return;
    }
    program_id_ = info->id;
    skeleton_ = skeleton;
  }

  Result<void> attach(int ifindex, const Result<TcFilter>& in_our_place) {
    bpf_tc_hook hook = egress_of(ifindex);
    bpf_tc_opts opts = our_place();
    opts.prog_fd = bpf_program__fd(skeleton_->progs.heddle_egress);
    if (in_our_place) {
      if (!in_our_place->name.starts_with(kOurName)) {
        return fail(Errc::foreign_state,
                    fmt::format("a foreign {} filter {}has handle {} at egress priority {}",
                                in_our_place->kind,
                                in_our_place->name.empty() ? "" : in_our_place->name + " ", kHandle,
                                kPriority));
      }
      opts.flags = BPF_TC_F_REPLACE;  // left by an agent that was killed
    }
    if (only_look_)
      return {};
    if (const int error = bpf_tc_hook_create(&hook); error != 0 && error != -EEXIST)
      return fail(Errc::kernel, fmt::format("no clsact qdisc: {}", error_text(error)));
    if (const int error = bpf_tc_attach(&hook, &opts); error != 0) {
      return fail(Errc::kernel,
                  fmt::format("the filter cannot be attached: {}", error_text(error)));
    }
    return {};
  }

  void detach(int ifindex) {
    const Result<TcFilter> there = filters_.find(ifindex, kPriority, kHandle);
    if (!there || there->program_id != program_id_)
      return;
    const bpf_tc_hook hook = egress_of(ifindex);
    const bpf_tc_opts opts = our_place();
    bpf_tc_detach(&hook, &opts);
  }

  template <class Visit>
  Result<void> walk(Visit visit) {
    const int map = bpf_map__fd(skeleton_->maps.heddle_flows);
    std::uint32_t position = 0;
    bool begun = false;
    for (;;) {
      std::uint32_t next = 0;
      __u32 count = kBatch;
      const int error = bpf_map_lookup_batch(map, begun ? &position : nullptr, &next, keys_.get(),
                                             values_.get(), &count, nullptr);
      if (error != 0 && error != -ENOENT) {
        return fail(Errc::kernel,
                    fmt::format("the flow table cannot be read: {}", error_text(error)));
      }
      for (std::uint32_t i = 0; i < count; ++i)
        visit(keys_[i], values_[i]);
      if (error == -ENOENT)
        return {};  // the table's end
      // Entries came and went so fast that more were met than the table holds at a time.
      position = next;
      begun = true;
    }
  }

  std::vector<std::string> patterns_;
  bool only_look_;
  TcFilterQuery filters_;
  roce_egress* skeleton_{};
  std::string load_failure_;
  std::uint32_t program_id_{};
  std::map<int, std::string> watched_;  // by interface index
  std::string port_failures_;
  bool gap_{};
  std::uint64_t last_found_{};
  std::uint64_t removed_{};
  std::int64_t evicted_{};
  std::uint64_t unrecorded_{};
  // Not written to before the kernel does: where there are few flows most of it takes no memory.
  std::unique_ptr<heddle_flow_key[]> keys_ =
      std::make_unique_for_overwrite<heddle_flow_key[]>(kBatch);
  std::unique_ptr<heddle_flow_value[]> values_ =
      std::make_unique_for_overwrite<heddle_flow_value[]>(kBatch);
};

TcBpfSource::TcBpfSource(std::vector<std::string> port_patterns)
    : impl_(std::make_unique<Impl>(std::move(port_patterns), false)) {}

TcBpfSource::~TcBpfSource() = default;

SourceCapability TcBpfSource::check(std::vector<std::string> port_patterns) {
  return Impl(std::move(port_patterns), true).capability();
}

std::size_t TcBpfSource::remove_left_behind() {
  libbpf_set_print(nullptr);
  std::size_t removed = 0;
  TcFilterQuery filters;
  struct if_nameindex* const list = if_nameindex();
  for (const struct if_nameindex* i = list; i != nullptr && i->if_index != 0; ++i) {
    const int ifindex = static_cast<int>(i->if_index);
    const Result<TcFilter> there = filters.find(ifindex, kPriority, kHandle);
    if (!there || !there->name.starts_with(kOurName))
      continue;
    const bpf_tc_hook hook = egress_of(ifindex);
    const bpf_tc_opts opts = our_place();
    removed += bpf_tc_detach(&hook, &opts) == 0 ? 1 : 0;
  }
  if (list)
    if_freenameindex(list);
  return removed;
}

std::vector<SourceCapability> TcBpfSource::probe() {
  impl_->follow_ports();
  return {impl_->capability()};
}

void TcBpfSource::links_changed() {
  impl_->follow_ports();
}

Result<FlowReading> TcBpfSource::read(Time now) {
  return impl_->read(now);
}

}  // namespace heddle
