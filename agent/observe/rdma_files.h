// What sysfs (/sys/class/infiniband) says of RDMA ports: how much they carried, the evidence of
// congestion, their addresses. Pure functions over a tree of files; nothing in a file is believed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/observe/file_tree.h"
#include "agent/observe/rdma_values.h"

namespace heddle {

// A counter's file: a decimal number. Nothing for anything else, such as "N/A (no PMA)".
std::optional<std::uint64_t> parse_count(std::string_view text);

// A GID as sysfs writes it, eight groups of four digits; IPv4 addresses are mapped into IPv6.
// Nothing if it is no GID or an empty entry.
std::optional<IpAddress> parse_gid(std::string_view text);

// The counters that can be observed now, under the names of reports, by name. One that stands at
// the end of its 32 bits has ceased to count and is left out.
std::vector<CounterValue> read_port_counters(const FileTree& tree, const std::string& device,
                                             std::uint32_t port);

// The port's addresses that RoCEv2 uses. Dozens of files: not for every look.
std::vector<RdmaAddress> read_addresses(const FileTree& tree, const RdmaDevice& device,
                                        std::uint32_t port);

// Soft-RoCE, whose packets the kernel makes.
bool is_software(const FileTree& tree, const std::string& device);

}  // namespace heddle
