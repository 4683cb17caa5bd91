// Asks the kernel which filter is at one place of an interface's egress hook. libbpf asks for no
// name, and to learn it by the program's id takes CAP_SYS_ADMIN, which an agent does not have. One
// thread; of the network namespace of the thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/core/result.h"

namespace heddle {

struct TcFilter {
  std::string kind;            // "bpf", "u32", ...
  std::string name;            // of a BPF program, as who attached it named it
  std::uint32_t program_id{};  // 0: none
};

// From the attributes of the kernel's answer; what is damaged is left out.
TcFilter parse_tc_filter(std::span<const std::byte> attributes);

class TcFilterQuery {
 public:
  TcFilterQuery();
  ~TcFilterQuery();
  TcFilterQuery(const TcFilterQuery&) = delete;
  TcFilterQuery& operator=(const TcFilterQuery&) = delete;

  // Errc::not_found if the place is free or there is no such interface or hook; Errc::io if it
  // cannot be asked.
  Result<TcFilter> find(int ifindex, std::uint32_t priority, std::uint32_t handle);

 private:
  int fd_;
  std::uint32_t sequence_{};
};

}  // namespace heddle
