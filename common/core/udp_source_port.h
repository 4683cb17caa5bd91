// The UDP source port of RoCEv2 packets, from what both ends know before the first packet. Rebuilt
// from the kernel's and drivers' behaviour, with vectors measured on Soft-RoCE in the tests. Pure.
#pragma once

#include <cstdint>

namespace heddle {

// The label that drivers derive where the application gave none (NCCL's default; mlx5, irdma, hns,
// rxe): 20 bits, the same at both ends.
std::uint32_t flow_label(std::uint32_t qpn, std::uint32_t remote_qpn);

// The label of a connection made by rdma_cm, which both ends use: from the port of the end that
// called and the service's port.
std::uint32_t cm_flow_label(std::uint16_t caller_port, std::uint16_t service_port);

// Folds a label's 20 bits into the 14 of the ports 49152 to 65535.
std::uint16_t udp_source_port(std::uint32_t label);

}  // namespace heddle
