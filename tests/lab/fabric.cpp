#include "tests/lab/fabric.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/core/check.h"
#include "tests/lab/process.h"
#include "tests/lab/routing.h"

namespace heddle::lab {
namespace {

constexpr const char* kStateFolder = "/run/heddle-lab";
constexpr std::string_view kManagement = "mgmt";

std::string state_file(const std::string& prefix) {
  return fmt::format("{}/{}state", kStateFolder, prefix);
}

std::string work_folder_of(const std::string& prefix) {
  return fmt::format("{}/{}work", kStateFolder, prefix);
}

Result<void> append(const std::string& prefix, const std::string& line, bool fresh = false) {
  std::error_code ignored;
  std::filesystem::create_directories(kStateFolder, ignored);
  std::ofstream file(state_file(prefix), fresh ? std::ios::trunc : std::ios::app);
  file << line << "\n" << std::flush;
  if (!file)
    return fail(Errc::io, fmt::format("cannot write {}", state_file(prefix)));
  return {};
}

// When a process began, in clock ticks since boot (field 22 of its stat): with it a number that is
// used again is told from the process that was meant. 0 if there is none.
std::uint64_t start_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos)
    return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i)
    fields >> field;
  return std::strtoull(field.c_str(), nullptr, 10);
}

struct Listed {
  pid_t process{};
  std::uint64_t start{};
};

std::vector<Listed> listed_processes(const std::string& prefix) {
  std::vector<Listed> found;
  std::ifstream file(state_file(prefix));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    Listed listed;
    if (words >> kind >> listed.process >> listed.start && kind == "process")
      found.push_back(listed);
  }
  return found;
}

// Asks, waits, and then insists. Only a process that is still the one in the list.
int end_processes(const std::string& prefix) {
  std::vector<pollfd> alive;
  for (const Listed& listed : listed_processes(prefix)) {
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, listed.process, 0));
    if (fd < 0)
      continue;
    if (start_of(listed.process) != listed.start) {
      ::close(fd);
      continue;
    }
    ::syscall(SYS_pidfd_send_signal, fd, SIGTERM, nullptr, 0);
    alive.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
  const Time patience = boot_now() + std::chrono::seconds(3);
  for (pollfd& process : alive) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(patience - boot_now());
    if (::poll(&process, 1, std::max(0, static_cast<int>(left.count()))) != 1) {
      ::syscall(SYS_pidfd_send_signal, process.fd, SIGKILL, nullptr, 0);
      ::poll(&process, 1, 1000);
    }
    ::close(process.fd);
  }
  return static_cast<int>(alive.size());
}

}  // namespace

Result<Fabric> Fabric::raise(const FabricSpec& spec) {
  if (!list_namespaces(spec.prefix).empty())
    return fail(Errc::duplicate,
                fmt::format("namespaces {}* exist; `heddle-lab down` removes them", spec.prefix));
  Fabric fabric;
  fabric.spec_ = spec;
  fabric.owned_ = true;  // from the first piece on: a half-raised fabric is removed, too
  auto noted = append(
      spec.prefix,
      fmt::format("fabric {} {} {} {} {} {:d}", spec.leaves, spec.spines, spec.hosts,
                  static_cast<std::uint64_t>(spec.rate.bits_per_second), spec.mtu, spec.segments),
      true);
  if (!noted)
    return tl::unexpected(noted.error());
  if (auto built = fabric.build(); !built)
    return tl::unexpected(built.error());
  if (auto shaped = fabric.shape_links(); !shaped)
    return tl::unexpected(shaped.error());
  if (auto routed = program_routes(fabric); !routed)
    return tl::unexpected(routed.error());
  return fabric;
}

Result<Fabric> Fabric::attach(const std::string& prefix) {
  std::ifstream file(state_file(prefix));
  std::string kind;
  Fabric fabric;
  FabricSpec& spec = fabric.spec_;
  if (!(file >> kind >> spec.leaves >> spec.spines >> spec.hosts >> spec.rate.bits_per_second >>
        spec.mtu >> spec.segments))
    return fail(Errc::not_found, "no fabric is up; `heddle-lab up` raises one");
  spec.prefix = prefix;
  for (std::string node : node_names(spec)) {
    auto space = NetNamespace::open(prefix + node);
    if (!space)
      return tl::unexpected(space.error());
    fabric.spaces_.emplace(std::move(node), std::move(*space));
  }
  auto management = NetNamespace::open(fmt::format("{}{}", prefix, kManagement));
  if (!management)
    return tl::unexpected(management.error());
  fabric.spaces_.emplace(kManagement, std::move(*management));
  if (auto opened = fabric.open_nodes(); !opened)
    return tl::unexpected(opened.error());
  return fabric;
}

Result<int> Fabric::tear_down(const std::string& prefix) {
  int removed = end_processes(prefix);
  for (const std::string& name : list_namespaces(prefix)) {
    if (auto gone = remove_namespace(name); !gone)
      return tl::unexpected(gone.error());
    ++removed;
  }
  std::error_code ignored;
  std::filesystem::remove_all(work_folder_of(prefix), ignored);
  std::filesystem::remove(state_file(prefix), ignored);
  std::filesystem::remove(kStateFolder, ignored);  // if no other fabric uses it
  return removed;
}

Fabric& Fabric::operator=(Fabric&& other) noexcept {
  std::swap(spec_, other.spec_);
  std::swap(owned_, other.owned_);
  spaces_.swap(other.spaces_);
  netlinks_.swap(other.netlinks_);
  return *this;
}

Fabric::~Fabric() {
  if (!owned_)
    return;
  netlinks_.clear();
  spaces_.clear();
  if (auto down = tear_down(spec_.prefix); !down)
    fmt::print(stderr, "taking the fabric down: {}\n", down.error().message);
}

const NetNamespace& Fabric::space(std::string_view node) const {
  const auto found = spaces_.find(node);
  HEDDLE_CHECK(found != spaces_.end());
  return found->second;
}

Netlink& Fabric::netlink(std::string_view node) {
  const auto found = netlinks_.find(node);
  HEDDLE_CHECK(found != netlinks_.end());
  return found->second;
}

Result<void> Fabric::open_nodes() {
  for (const auto& [node, space] : spaces_) {
    auto net = Netlink::open(space);
    if (!net)
      return tl::unexpected(net.error());
    netlinks_.emplace(node, std::move(*net));
  }
  return {};
}

// Settings come before the interfaces, which take them over from "default".
Result<void> Fabric::prepare(const std::string& node) {
  auto made = NetNamespace::create(spec_.prefix + node);
  if (!made)
    return tl::unexpected(made.error());
  // The fabric as a whole is removed by tear_down(); a name at a time would be in its way.
  made->keep();
  const NetNamespace& space = spaces_.emplace(node, std::move(*made)).first->second;
  std::vector<std::pair<const char*, const char*>> settings{
      {"net/ipv6/conf/default/disable_ipv6", "1"},
      {"net/ipv4/conf/all/rp_filter", "0"},
      {"net/ipv4/conf/default/rp_filter", "0"},
      {"net/ipv4/conf/all/ignore_routes_with_linkdown", "1"},
      {"net/ipv4/conf/default/ignore_routes_with_linkdown", "1"},
  };
  const bool is_switch = node.starts_with("leaf") || node.starts_with("spine");
  if (is_switch) {
    settings.insert(settings.end(), {{"net/ipv4/ip_forward", "1"},
                                     {"net/ipv4/fib_multipath_hash_policy", "3"},
                                     {"net/ipv4/fib_multipath_hash_fields", "55"},
                                     {"net/ipv4/fib_multipath_hash_seed", "42"}});
  }
  if (spec_.segments && node != kManagement) {
    // Addresses are usable at once, and stay when a cable is cut.
    settings.front().second = "0";
    settings.insert(settings.end(), {{"net/ipv6/conf/default/accept_dad", "0"},
                                     {"net/ipv6/conf/default/accept_ra", "0"},
                                     {"net/ipv6/conf/all/keep_addr_on_down", "1"},
                                     {"net/ipv6/conf/default/keep_addr_on_down", "1"},
                                     {"net/ipv6/conf/all/ignore_routes_with_linkdown", "1"},
                                     {"net/ipv6/conf/default/ignore_routes_with_linkdown", "1"},
                                     {"net/ipv6/conf/all/seg6_enabled", "1"},
                                     {"net/ipv6/conf/default/seg6_enabled", "1"}});
    if (is_switch)
      settings.insert(settings.end(), {{"net/ipv6/conf/all/forwarding", "1"},
                                       {"net/ipv6/fib_multipath_hash_policy", "3"},
                                       {"net/ipv6/fib_multipath_hash_fields", "55"}});
  }
  for (const auto& [name, value] : settings)
    if (auto set = space.set_sysctl(name, value); !set)
      return set;
  return {};
}

Result<void> Fabric::build() {
  std::vector<std::string> nodes = node_names(spec_);
  for (const std::string& node : nodes)
    if (auto ready = prepare(node); !ready)
      return ready;
  if (auto ready = prepare(std::string(kManagement)); !ready)
    return ready;
  if (auto opened = open_nodes(); !opened)
    return opened;

  // Every pair first, because both ends must be up before a next hop can be made.
  Netlink& management = netlink(kManagement);
  management.add_bridge("br0");
  management.set_up("br0");
  management.add_address("br0", management_address(kManagement), 16);
  for (const std::string& node : nodes) {
    const std::string port = fmt::format("m-{}", node);
    management.add_veth(port, netlink(node), "mgmt0");
    management.set_master(port, "br0");
    management.set_up(port);
  }
  if (auto done = management.commit(); !done)
    return done;
  for (int leaf = 1; leaf <= spec_.leaves; ++leaf) {
    Netlink& net = netlink(NodeName::leaf(leaf));
    for (int spine = 1; spine <= spec_.spines; ++spine) {
      const std::string port = fmt::format("up{}", spine);
      net.add_veth(port, netlink(NodeName::spine(spine)), fmt::format("d{}", leaf), spec_.mtu);
      net.add_address(port, uplink_address(leaf, spine), 30);
      net.set_up(port);
    }
    for (int host = 1; host <= spec_.hosts; ++host) {
      const std::string port = fmt::format("p{}", host);
      net.add_veth(port, netlink(NodeName::host(leaf, host)), "eth0", spec_.mtu);
      net.add_address(port, leaf_port_address(leaf, host), 30);
      net.set_up(port);
    }
    if (auto done = net.commit(); !done)
      return done;
    for (int host = 1; host <= spec_.hosts; ++host) {
      Netlink& host_net = netlink(NodeName::host(leaf, host));
      host_net.add_address("eth0", host_address(leaf, host), 30);
      host_net.set_up("eth0");
    }
  }
  for (int spine = 1; spine <= spec_.spines; ++spine) {
    Netlink& net = netlink(NodeName::spine(spine));
    for (int leaf = 1; leaf <= spec_.leaves; ++leaf) {
      net.add_address(fmt::format("d{}", leaf), downlink_address(leaf, spine), 30);
      net.set_up(fmt::format("d{}", leaf));
    }
  }
  if (spec_.segments)
    add_underlay_addresses();
  for (const std::string& node : nodes) {
    Netlink& net = netlink(node);
    net.add_address("mgmt0", management_address(node), 16);
    net.set_up("mgmt0");
    if (auto done = net.commit(); !done)
      return done;
  }
  return {};
}

void Fabric::add_underlay_addresses() {
  for (int leaf = 1; leaf <= spec_.leaves; ++leaf) {
    Netlink& net = netlink(NodeName::leaf(leaf));
    for (int spine = 1; spine <= spec_.spines; ++spine) {
      net.add_address(fmt::format("up{}", spine), underlay_uplink_address(leaf, spine), 64);
      netlink(NodeName::spine(spine))
          .add_address(fmt::format("d{}", leaf), underlay_downlink_address(leaf, spine), 64);
    }
    for (int host = 1; host <= spec_.hosts; ++host) {
      net.add_address(fmt::format("p{}", host), underlay_port_address(leaf, host), 64);
      netlink(NodeName::host(leaf, host))
          .add_address("eth0", underlay_host_address(leaf, host), 64);
    }
  }
}

namespace {

// The queue holds every packet that windows allow to collide, so that the fabric is lossless, as
// RoCE wants it. The bucket is small: what it saves up while a job computes is not the link's rate.
// Acknowledgements have a band of their own before the data: congestion control keeps real queues
// so short that they hardly wait in any, and senders whose window is fixed would be slowed by
// queues that other jobs' data fills.
void shape(Netlink& net, const std::string& port, Rate rate) {
  constexpr std::uint32_t kQueueBytes = 8 << 20;
  const double ten_milliseconds = rate.bits_per_second / 8 * 0.010;
  net.add_tbf(port, rate, static_cast<std::uint32_t>(std::max(32768.0, ten_milliseconds)),
              kQueueBytes);
  net.add_priority_bands(port);
}

}  // namespace

Result<void> Fabric::shape_links() {
  for (int leaf = 1; leaf <= spec_.leaves; ++leaf) {
    Netlink& net = netlink(NodeName::leaf(leaf));
    for (int host = 1; host <= spec_.hosts; ++host) {
      shape(net, fmt::format("p{}", host), spec_.rate);
      Netlink& host_net = netlink(NodeName::host(leaf, host));
      shape(host_net, "eth0", spec_.rate);
      if (auto done = host_net.commit(); !done)
        return done;
    }
    if (auto done = net.commit(); !done)
      return done;
  }
  if (spec_.segments)
    if (auto done = let_wrapped_answers_pass(); !done)
      return done;
  return shape_core();
}

// The kernel takes a packet's band from the type of service of IPv4 as it forwards, and not from
// what is wrapped in IPv6: behind 40 octets of that and 40 of a routing header of two segments.
Result<void> Fabric::let_wrapped_answers_pass() {
  const std::string script = fmt::format("{}/bands.nft", work_folder());
  std::error_code error;
  std::filesystem::create_directories(work_folder(), error);
  std::ofstream file(script);
  file << "table ip6 bands { chain forward { type filter hook forward priority 0; "
          "ip6 nexthdr 43 @nh,648,8 0x10 meta priority set 6; }; }\n"
       << std::flush;
  if (!file)
    return fail(Errc::io, fmt::format("cannot write {}", script));
  for (const std::string& node : node_names(spec_)) {
    if (!node.starts_with("leaf") && !node.starts_with("spine"))
      continue;
    const auto done =
        capture({.words = {"/usr/sbin/nft", "-f", script}, .space = &space(node), .log = {}},
                std::chrono::seconds(10));
    if (!done)
      return tl::unexpected(done.error());
    if (done->status != 0)
      return fail(Errc::kernel, fmt::format("nft in {}: {}", node, done->errors));
  }
  return {};
}

Result<void> Fabric::shape_core() {
  for (int leaf = 1; leaf <= spec_.leaves; ++leaf)
    for (int spine = 1; spine <= spec_.spines; ++spine) {
      shape(netlink(NodeName::leaf(leaf)), fmt::format("up{}", spine), spec_.rate);
      shape(netlink(NodeName::spine(spine)), fmt::format("d{}", leaf), spec_.rate);
    }
  for (auto& [node, net] : netlinks_)
    if (auto done = net.commit(); !done)
      return done;
  return {};
}

Result<void> Fabric::shape_uplink(int leaf, int spine, Rate rate) {
  Netlink& net = netlink(NodeName::leaf(leaf));
  const std::string port = fmt::format("up{}", spine);
  net.delete_root_qdisc(port);
  if (auto done = net.commit(); !done)
    return done;
  shape(net, port, rate);
  return net.commit();
}

Result<void> Fabric::unshape_core() {
  for (int leaf = 1; leaf <= spec_.leaves; ++leaf)
    for (int spine = 1; spine <= spec_.spines; ++spine) {
      netlink(NodeName::leaf(leaf)).delete_root_qdisc(fmt::format("up{}", spine));
      netlink(NodeName::spine(spine)).delete_root_qdisc(fmt::format("d{}", leaf));
    }
  for (auto& [node, net] : netlinks_)
    if (auto done = net.commit(); !done)
      return done;
  return {};
}

Result<void> Fabric::cut_cable(int leaf, int spine) {
  Netlink& net = netlink(NodeName::spine(spine));
  net.set_up(fmt::format("d{}", leaf), false);
  return net.commit();
}

Result<void> Fabric::restore_cable(int leaf, int spine) {
  Netlink& net = netlink(NodeName::spine(spine));
  net.set_up(fmt::format("d{}", leaf), true);
  return net.commit();
}

Result<void> Fabric::cut_spine(int spine) {
  Netlink& net = netlink(NodeName::spine(spine));
  for (int leaf = 1; leaf <= spec_.leaves; ++leaf)
    net.set_up(fmt::format("d{}", leaf), false);
  return net.commit();
}

Result<void> Fabric::restore_spine(int spine) {
  Netlink& net = netlink(NodeName::spine(spine));
  for (int leaf = 1; leaf <= spec_.leaves; ++leaf)
    net.set_up(fmt::format("d{}", leaf), true);
  return net.commit();
}

bool Fabric::cable_up(int leaf, int spine) {
  const auto links = netlink(NodeName::leaf(leaf)).links();
  if (!links)
    return false;
  const std::string port = fmt::format("up{}", spine);
  return std::any_of(links->begin(), links->end(), [&](const LinkSeen& link) {
    return link.name == port && link.up && link.carrier;
  });
}

std::string Fabric::work_folder() const {
  return work_folder_of(spec_.prefix);
}

Result<void> Fabric::remember_process(pid_t process, std::string_view what) {
  return append(spec_.prefix, fmt::format("process {} {} {}", process, start_of(process), what));
}

}  // namespace heddle::lab
