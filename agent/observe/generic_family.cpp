#include "agent/observe/generic_family.h"

#include <fmt/format.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "agent/observe/attributes.h"

namespace heddle {
namespace {

constexpr std::size_t kHeaders = NLMSG_HDRLEN + GENL_HDRLEN;

// {.., CTRL_ATTR_MCAST_GRP_NAME, CTRL_ATTR_MCAST_GRP_ID}
void read_group(std::span<const std::byte> attributes, GenericFamily& family) {
  std::string name;
  std::optional<std::uint32_t> id;
  for_each_attribute(attributes, [&](int type, std::span<const std::byte> value) {
    if (type == CTRL_ATTR_MCAST_GRP_NAME)
      name = attribute_text(value);
    if (type == CTRL_ATTR_MCAST_GRP_ID)
      id = attribute_number<std::uint32_t>(value);
  });
  if (id)
    family.groups[name] = *id;
}

}  // namespace

std::optional<GenericFamily> parse_generic_family(std::span<const std::byte> message) {
  nlmsghdr header{};
  if (message.size() < kHeaders)
    return std::nullopt;
  std::memcpy(&header, message.data(), sizeof(header));
  if (header.nlmsg_type != GENL_ID_CTRL || header.nlmsg_len < kHeaders ||
      header.nlmsg_len > message.size())
    return std::nullopt;
  GenericFamily family;
  for_each_attribute(message.subspan(kHeaders, header.nlmsg_len - kHeaders),
                     [&family](int type, std::span<const std::byte> value) {
                       if (type == CTRL_ATTR_FAMILY_ID)
                         family.id = attribute_number<std::uint16_t>(value).value_or(0);
                       if (type == CTRL_ATTR_MCAST_GROUPS)
                         for_each_attribute(value, [&family](int, std::span<const std::byte> one) {
                           read_group(one, family);
                         });
                     });
  return family.id == 0 ? std::nullopt : std::optional(family);
}

Result<GenericFamily> find_generic_family(const std::string& name) {
  struct Request {
    nlmsghdr header;
    genlmsghdr generic;
    nlattr attribute;
    std::array<char, GENL_NAMSIZ> name;
  } request{};
  request.header.nlmsg_type = GENL_ID_CTRL;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.header.nlmsg_seq = 1;
  request.generic.cmd = CTRL_CMD_GETFAMILY;
  request.generic.version = 1;
  request.attribute.nla_type = CTRL_ATTR_FAMILY_NAME;
  request.attribute.nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + name.size() + 1);
  std::copy_n(name.begin(), std::min<std::size_t>(name.size(), GENL_NAMSIZ - 1),
              request.name.begin());
  request.header.nlmsg_len =
      static_cast<std::uint32_t>(kHeaders + NLA_ALIGN(request.attribute.nla_len));

  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
  if (fd < 0)
    return fail(Errc::kernel, fmt::format("generic netlink: {}", std::strerror(errno)));
  // The kernel answers within the call that asks; the limit is for what must not be relied on.
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  (void)::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  std::array<std::byte, 16384> buffer{};
  ssize_t received = ::send(fd, &request, request.header.nlmsg_len, 0);
  if (received >= 0)
    received = ::recv(fd, buffer.data(), buffer.size(), 0);
  const int error = errno;
  ::close(fd);
  if (received < 0)
    return fail(Errc::kernel, fmt::format("generic netlink: {}", std::strerror(error)));
  std::optional<GenericFamily> family =
      parse_generic_family(std::span(buffer).first(static_cast<std::size_t>(received)));
  if (!family)
    return fail(Errc::not_found, fmt::format("the kernel has no family \"{}\"", name));
  return *std::move(family);
}

}  // namespace heddle
