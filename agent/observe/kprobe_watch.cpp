#include "agent/observe/kprobe_watch.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "agent/observe/module_life.h"
#include "agent/observe/qp_layout.h"
// The embedded program needs the first of these.
// clang-format off
#include "agent/observe/qp_connect.h"
#include <qp_connect.skel.h>
// clang-format on

namespace heddle {
namespace {

constexpr const char* kName = "kprobe";
constexpr const char* kModule = "ib_core";
constexpr const char* kFunction = "ib_modify_qp_with_udata";

struct FreeBtf {
  void operator()(btf* types) const { btf__free(types); }
};
using Btf = std::unique_ptr<btf, FreeBtf>;

bool exists(const char* path) {
  struct stat status {};
  return ::stat(path, &status) == 0;
}

IpAddress address_of(const __u8 (&gid)[16]) {
  IpAddress address{.family = Family::v6, .octets = {}};
  std::copy(std::begin(gid), std::end(gid), address.octets.begin());
  const auto& o = address.octets;
  const bool mapped =
      std::all_of(o.begin(), o.begin() + 10, [](auto octet) { return octet == 0; }) &&
      o[10] == 0xFF && o[11] == 0xFF;
  return mapped ? IpAddress::v4(o[12], o[13], o[14], o[15]) : address;
}

Result<heddle_qp_layout> layout_of_this_kernel() {
  if (!exists("/sys/kernel/btf/vmlinux"))
    return fail(Errc::unsupported, "the kernel does not describe its types (no /sys/kernel/btf)");
  const Btf base(btf__load_vmlinux_btf());
  if (!base)
    return fail(Errc::unsupported,
                fmt::format("the kernel's types cannot be read: {}", std::strerror(errno)));
  // Built in, or a module of its own.
  if (Result<heddle_qp_layout> layout = find_qp_layout(base.get()))
    return layout;
  if (!exists("/sys/kernel/btf/ib_core"))
    return fail(Errc::unsupported, "the kernel has no RDMA (ib_core is not loaded)");
  const Btf module(btf__load_module_btf(kModule, base.get()));
  if (!module)
    return fail(Errc::unsupported,
                fmt::format("the types of {} cannot be read: {}", kModule, std::strerror(errno)));
  return find_qp_layout(module.get());
}

}  // namespace

class KprobeWatch::Impl {
 public:
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { stop(); }

  // Begins to watch, or says why not; nothing is done while RDMA's module stays as it is. The
  // kernel says nothing to whoever watched a module that was unloaded, and does not go on when it
  // is loaded again, perhaps with its types laid out in another way.
  void start() {
    const bool core_changed = core_.changed();
    if (!types_.changed() && !core_changed)
      return;
    consume();
    stop();
    if (const Result<void> started = load(); !started) {
      stop();
      reason_ = started.error().message;
    }
  }

  bool watches() const { return link_ != nullptr; }
  const std::string& reason() const { return reason_; }

  std::vector<QpConnection> take() {
    consume();
    return std::exchange(taken_, {});
  }

 private:
  void consume() {
    if (ring_ != nullptr)
      ring_buffer__consume(ring_);
  }

  Result<void> load() {
    libbpf_set_print(nullptr);
    const Result<heddle_qp_layout> layout = layout_of_this_kernel();
    if (!layout)
      return tl::unexpected(layout.error());
    skeleton_ = qp_connect::open();
    if (skeleton_ == nullptr)
      return fail(Errc::kernel,
                  fmt::format("the kernel program cannot be opened: {}", std::strerror(errno)));
    std::memcpy(const_cast<heddle_qp_layout*>(&skeleton_->rodata->heddle_layout), &*layout,
                sizeof(*layout));
    if (const int error = qp_connect::load(skeleton_); error != 0) {
      return error == -EPERM
                 ? fail(
                       Errc::permission,
                       "the kernel refuses to load the program: CAP_BPF and CAP_PERFMON are needed")
                 : fail(Errc::kernel, fmt::format("the kernel refuses to load the program: {}",
                                                  std::strerror(-error)));
    }
    link_ = bpf_program__attach_kprobe(skeleton_->progs.heddle_qp_connects, false, kFunction);
    if (link_ == nullptr) {
      return fail(Errc::kernel,
                  fmt::format("{} cannot be watched (CAP_PERFMON, kprobes, and on Debian "
                              "kernel.perf_event_paranoid of at most 2 are needed): {}",
                              kFunction, std::strerror(errno)));
    }
    ring_ = ring_buffer__new(bpf_map__fd(skeleton_->maps.heddle_connections), &Impl::connected,
                             this, nullptr);
    if (ring_ == nullptr)
      return fail(Errc::kernel, fmt::format("no ring buffer: {}", std::strerror(errno)));
    reason_.clear();
    return {};
  }

  void stop() {
    ring_buffer__free(std::exchange(ring_, nullptr));
    bpf_link__destroy(std::exchange(link_, nullptr));
    if (skeleton_ != nullptr)
      qp_connect::destroy(std::exchange(skeleton_, nullptr));
  }

  static int connected(void* self, void* data, size_t size) {
    heddle_qp_connected told{};
    if (size < sizeof(told))
      return 0;
    std::memcpy(&told, data, sizeof(told));
    static_cast<Impl*>(self)->taken_.push_back(
        {.device = told.device,
         .qpn = told.qpn,
         .remote_qpn = told.remote_qpn,
         .destination = address_of(told.destination),
         .flow_label = told.flow_label,
         .port = told.port,
         .gid_index = told.gid_index,
         .when = Time{Duration{static_cast<Duration::rep>(told.boot_ns)}}});
    return 0;
  }

  qp_connect* skeleton_{};
  bpf_link* link_{};
  ring_buffer* ring_{};
  ModuleLife core_{"/sys/module/ib_core"};
  ModuleLife types_{"/sys/kernel/btf/ib_core"};  // which come a little later
  std::string reason_;
  std::vector<QpConnection> taken_;
};

KprobeWatch::KprobeWatch() : impl_(std::make_unique<Impl>()) {}
KprobeWatch::~KprobeWatch() = default;

SourceCapability KprobeWatch::probe() {
  impl_->start();
  return {kName, impl_->watches(), impl_->reason()};
}

std::vector<QpConnection> KprobeWatch::take() {
  return impl_->take();
}

}  // namespace heddle
