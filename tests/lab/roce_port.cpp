#include "tests/lab/roce_port.h"

#include <fmt/format.h>
#include <netinet/ip.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "common/core/check.h"

namespace heddle::lab {
namespace {

constexpr int kBatch = 32;
constexpr std::size_t kHeadOnly = 64;
constexpr std::size_t kWholePacket = 4352;
constexpr std::uint32_t kVerifyEvery = 16;
constexpr int kBufferBytes = 4 << 20;
constexpr std::size_t kSerialSize = 8;

// All payload after the serial number; its bytes do not matter, its CRC is known.
const std::array<std::byte, kPayload - kSerialSize>& filling() {
  static const auto block = [] {
    std::array<std::byte, kPayload - kSerialSize> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(i * 31);
    return bytes;
  }();
  return block;
}

const ConstantBlock& filling_crc() {
  static const ConstantBlock block(filling());
  return block;
}

sockaddr_in socket_address(const IpAddress& address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  std::memcpy(&result.sin_addr, address.octets.data(), 4);
  return result;
}

Result<int> udp_socket(const NetNamespace& space, const IpAddress& address, std::uint16_t port) {
  auto fd = space.socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  if (!fd)
    return fd;
  // DF makes the kernel leave the identification at zero, which the invariant CRC relies on. RoCEv2
  // needs no UDP checksum, having its own.
  const int discover = IP_PMTUDISC_DO;
  const int on = 1;
  ::setsockopt(*fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
  ::setsockopt(*fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on));
  ::setsockopt(*fd, SOL_SOCKET, SO_RCVBUFFORCE, &kBufferBytes, sizeof(kBufferBytes));
  ::setsockopt(*fd, SOL_SOCKET, SO_SNDBUFFORCE, &kBufferBytes, sizeof(kBufferBytes));
  const sockaddr_in own = socket_address(address, port);
  if (::bind(*fd, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0) {
    const int reason = errno;
    ::close(*fd);
    return fail(Errc::io, fmt::format("binding {}:{} in {}: {}", to_string(address), port,
                                      space.name(), std::strerror(reason)));
  }
  return fd;
}

// Tries every packet once. A refusal (no route while a link is down) costs that packet.
void send_all(int fd, std::span<mmsghdr> packets) {
  while (!packets.empty()) {
    const int sent = ::sendmmsg(fd, packets.data(), static_cast<unsigned>(packets.size()), 0);
    packets = packets.subspan(static_cast<std::size_t>(std::max(sent, 1)));
  }
}

}  // namespace

// Buffers for sending and receiving, made once.
struct RocePort::Batch {
  std::array<std::array<std::byte, kBthSize + kRethSize + kSerialSize>, kBatch> heads;
  std::array<std::array<std::byte, kIcrcSize>, kBatch> tails;
  std::array<std::array<iovec, 3>, kBatch> parts;
  std::array<mmsghdr, kBatch> packets;
  std::array<std::array<std::byte, kWholePacket>, kBatch> buffers;
  std::array<sockaddr_in, kBatch> peers;
};

RocePort::RocePort(const NetNamespace& space, const IpAddress& address)
    : space_(space), address_(address), batch_(std::make_unique<Batch>()) {}

Result<std::unique_ptr<RocePort>> RocePort::open(const NetNamespace& space,
                                                 const IpAddress& address) {
  std::unique_ptr<RocePort> port(new RocePort(space, address));
  auto fd = udp_socket(space, address, kRocePort);
  if (!fd)
    return tl::unexpected(fd.error());
  port->receive_fd_ = *fd;
  return port;
}

RocePort::~RocePort() {
  close_source_ports();
  if (receive_fd_ >= 0)
    ::close(receive_fd_);
}

Result<void> RocePort::use_source_port(std::uint16_t port) {
  if (send_fds_.contains(port))
    return {};
  auto fd = udp_socket(space_, address_, port);
  if (!fd)
    return tl::unexpected(fd.error());
  send_fds_.emplace(port, *fd);
  return {};
}

void RocePort::close_source_ports() {
  for (const auto& [port, fd] : send_fds_)
    ::close(fd);
  send_fds_.clear();
}

void RocePort::send(const IpAddress& destination, std::uint16_t source_port, std::uint32_t dest_qpn,
                    std::span<const Segment> segments) {
  const auto fd = send_fds_.find(source_port);
  HEDDLE_CHECK(fd != send_fds_.end());
  HEDDLE_CHECK(segments.size() <= kBatch);
  sockaddr_in peer = socket_address(destination, kRocePort);
  const RoceAddresses addresses{address_, destination, source_port};
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const auto bth = encode(Bth{segment.opcode, segment.ack_request, dest_qpn, segment.psn});
    auto& head = batch_->heads[i];
    std::size_t length = kBthSize;
    std::copy(bth.begin(), bth.end(), head.begin());
    if (begins_message(segment.opcode)) {
      const auto reth = encode_reth(segment.dma_length);
      std::copy(reth.begin(), reth.end(), head.begin() + static_cast<std::ptrdiff_t>(length));
      length += kRethSize;
    }
    std::memcpy(head.data() + length, &segment.serial, kSerialSize);
    length += kSerialSize;

    std::uint32_t crc = icrc_begin(addresses, length + filling().size() + kIcrcSize);
    crc = icrc_add_bth(crc, bth);
    crc = icrc_add(crc, std::span(head).subspan(kBthSize, length - kBthSize));
    batch_->tails[i] = icrc_bytes(filling_crc().append(crc));
    batch_->parts[i] = {iovec{head.data(), length},
                        iovec{const_cast<std::byte*>(filling().data()), filling().size()},
                        iovec{batch_->tails[i].data(), kIcrcSize}};
    msghdr& message = batch_->packets[i].msg_hdr;
    message = {};
    message.msg_name = &peer;
    message.msg_namelen = sizeof(peer);
    message.msg_iov = batch_->parts[i].data();
    message.msg_iovlen = 3;
  }
  send_all(fd->second, std::span(batch_->packets).first(segments.size()));
}

void RocePort::send_answer(const IpAddress& destination, std::uint16_t source_port,
                           std::uint32_t dest_qpn, std::uint32_t psn, std::uint8_t syndrome) {
  const auto fd = send_fds_.find(source_port);
  HEDDLE_CHECK(fd != send_fds_.end());
  std::array<std::byte, kBthSize + kAethSize + kIcrcSize> packet{};
  const auto bth = encode(Bth{Opcode::acknowledge, false, dest_qpn, psn});
  std::copy(bth.begin(), bth.end(), packet.begin());
  packet[kBthSize] = static_cast<std::byte>(syndrome);
  std::uint32_t crc = icrc_begin({address_, destination, source_port}, packet.size());
  crc = icrc_add_bth(crc, bth);
  crc = icrc_add(crc, std::span(packet).subspan(kBthSize, kAethSize));
  const auto tail = icrc_bytes(crc);
  std::copy(tail.begin(), tail.end(), packet.end() - kIcrcSize);
  const sockaddr_in peer = socket_address(destination, kRocePort);
  iovec whole{packet.data(), packet.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_name = const_cast<sockaddr_in*>(&peer);
  message.msg_namelen = sizeof(peer);
  message.msg_iov = &whole;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  // Every hop's queue knows by this that it goes before data.
  constexpr int kFirst = IPTOS_LOWDELAY;
  cmsghdr* const service = CMSG_FIRSTHDR(&message);
  service->cmsg_level = IPPROTO_IP;
  service->cmsg_type = IP_TOS;
  service->cmsg_len = CMSG_LEN(sizeof(kFirst));
  std::memcpy(CMSG_DATA(service), &kFirst, sizeof(kFirst));
  // A refusal is a lost acknowledgement, which later ones make up for.
  (void)::sendmsg(fd->second, &message, 0);
}

void RocePort::receive(const std::function<void(const Received&)>& each) {
  const bool verify = batches_++ % kVerifyEvery == 0;
  const std::size_t take = verify ? kWholePacket : kHeadOnly;
  for (std::size_t i = 0; i < kBatch; ++i) {
    batch_->parts[i][0] = iovec{batch_->buffers[i].data(), take};
    msghdr& message = batch_->packets[i].msg_hdr;
    message = {};
    message.msg_name = &batch_->peers[i];
    message.msg_namelen = sizeof(sockaddr_in);
    message.msg_iov = batch_->parts[i].data();
    message.msg_iovlen = 1;
  }
  // The length is the whole packet's, also where only its head was copied.
  const int got = ::recvmmsg(receive_fd_, batch_->packets.data(), kBatch, MSG_TRUNC, nullptr);
  for (int n = 0; n < got; ++n) {
    const auto i = static_cast<std::size_t>(n);
    const std::size_t length = batch_->packets[i].msg_len;
    const std::span<const std::byte> bytes =
        std::span(batch_->buffers[i]).first(std::min(length, take));
    const auto bth = decode_bth(bytes);
    if (!bth || length < kBthSize + kIcrcSize)
      continue;
    Received received;
    received.bth = *bth;
    received.source = IpAddress::v4_from_network(batch_->peers[i].sin_addr.s_addr);
    received.source_port = ntohs(batch_->peers[i].sin_port);
    if (length <= take) {
      ++icrc_.checked;
      if (!icrc_is_right({received.source, address_, received.source_port}, bytes)) {
        ++icrc_.wrong;
        continue;
      }
    }
    std::span<const std::byte> rest = bytes.subspan(kBthSize);
    if (bth->opcode == Opcode::acknowledge) {
      received.syndrome = std::to_integer<std::uint8_t>(rest[0]);
    } else {
      if (begins_message(bth->opcode)) {
        received.dma_length = decode_reth_length(rest);
        rest = rest.subspan(std::min(kRethSize, rest.size()));
      }
      if (rest.size() < kSerialSize)
        continue;
      std::memcpy(&received.serial, rest.data(), kSerialSize);
    }
    each(received);
  }
}

}  // namespace heddle::lab
