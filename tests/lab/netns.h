// Network namespaces for tests and the demonstration: made, entered and removed by the program
// itself. Any thread; an object belongs to one thread at a time. A namespace that was created is
// removed with its object, unless keep() was called. It is bound to /run/netns, so that `ip netns`
// sees it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/core/result.h"

namespace heddle::lab {

class NetNamespace {
 public:
  // Errc::duplicate if the name is taken, Errc::permission without CAP_SYS_ADMIN. Loopback is
  // brought up.
  static Result<NetNamespace> create(const std::string& name);
  // One that exists already; it is left alone at the end.
  static Result<NetNamespace> open(const std::string& name);

  NetNamespace(NetNamespace&& other) noexcept { *this = std::move(other); }
  NetNamespace& operator=(NetNamespace&& other) noexcept;
  ~NetNamespace();

  const std::string& name() const { return name_; }
  int fd() const { return fd_; }
  void keep() { owned_ = false; }

  // Runs `body` on a thread of its own inside the namespace and waits for it. Threads and processes
  // that it starts are inside, too.
  template <class Body>
  auto run(Body&& body) const -> std::invoke_result_t<Body> {
    using Value = std::invoke_result_t<Body>;
    if constexpr (std::is_void_v<Value>) {
      run_on_thread([&] { body(); });
    } else {
      std::vector<Value> value;
      run_on_thread([&] { value.push_back(body()); });
      return std::move(value.front());
    }
  }

  // A socket that stays in the namespace, whoever uses it.
  Result<int> socket(int domain, int type, int protocol) const;
  // name: "net/ipv4/ip_forward"
  Result<void> set_sysctl(std::string_view name, std::string_view value) const;

 private:
  NetNamespace() = default;
  void run_on_thread(const std::function<void()>& body) const;
  void close();

  std::string name_;
  int fd_{-1};
  bool owned_{};
};

// Moves the calling thread into a namespace, and back at the end of the scope.
class InNamespace {
 public:
  explicit InNamespace(const NetNamespace& target);
  ~InNamespace();
  InNamespace(const InNamespace&) = delete;
  InNamespace& operator=(const InNamespace&) = delete;

 private:
  int back_{-1};
};

// "hdt<pid>-<n>-<stem>": unique on this machine. The first call removes what tests of dead
// processes left.
std::string unique_namespace_name(std::string_view stem);

// The names in /run/netns that begin with `prefix`, sorted.
std::vector<std::string> list_namespaces(std::string_view prefix);

// Removes a namespace by name. Its interfaces vanish when the last process has left it.
Result<void> remove_namespace(const std::string& name);

}  // namespace heddle::lab
