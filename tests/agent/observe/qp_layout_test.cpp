// The kernel's types as its description (BTF) would have them, made here: the machine that tests
// runs on may have no RDMA. The virtual machine's tests watch a real kernel by this.
#include "agent/observe/qp_layout.h"

#include <bpf/btf.h>
#include <gtest/gtest.h>

#include <memory>

namespace heddle {
namespace {

struct Free {
  void operator()(btf* types) const { btf__free(types); }
};

// Offsets are made up; what matters is that each is found through the nesting.
std::unique_ptr<btf, Free> kernel_types(int port_octets, bool with_label = true) {
  std::unique_ptr<btf, Free> types(btf__new_empty());
  btf* b = types.get();
  const int u8 = btf__add_int(b, "u8", 1, 0);
  const int u32 = btf__add_int(b, "u32", 4, 0);
  const int alias = btf__add_typedef(b, "__u32", u32);
  const int octets = btf__add_array(b, u32, u8, 16);
  const int gid = btf__add_union(b, "ib_gid", 16);
  btf__add_field(b, "raw", octets, 0, 0);
  const int device = btf__add_struct(b, "ib_device", 400);
  btf__add_field(b, "index", alias, 8 * 396, 0);
  const int device_pointer = btf__add_ptr(b, device);
  const int route = btf__add_struct(b, "ib_global_route", 40);
  btf__add_field(b, "dgid", gid, 8 * 8, 0);
  if (with_label)
    btf__add_field(b, "flow_label", u32, 8 * 24, 0);
  btf__add_field(b, "sgid_index", u8, 8 * 28, 0);
  const int path = btf__add_struct(b, "rdma_ah_attr", 64);
  btf__add_field(b, "grh", route, 0, 0);
  btf__add_field(b, "port_num", port_octets == 4 ? alias : u8, 8 * 44, 0);
  btf__add_struct(b, "ib_qp_attr", 200);
  btf__add_field(b, "qp_state", u32, 0, 0);
  btf__add_field(b, "dest_qp_num", u32, 8 * 28, 0);
  btf__add_field(b, "ah_attr", path, 8 * 64, 0);
  // As a member of a part without a name.
  const int part = btf__add_struct(b, nullptr, 16);
  btf__add_field(b, "qp_num", u32, 8 * 4, 0);
  btf__add_struct(b, "ib_qp", 600);
  btf__add_field(b, "device", device_pointer, 0, 0);
  btf__add_field(b, nullptr, part, 8 * 100, 0);
  return types;
}

TEST(QpLayout, FindsEachMemberThroughItsNesting) {
  const auto layout = find_qp_layout(kernel_types(4).get());
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->qp_device, 0U);
  EXPECT_EQ(layout->qp_number, 104U);
  EXPECT_EQ(layout->device_index, 396U);
  EXPECT_EQ(layout->attr_state, 0U);
  EXPECT_EQ(layout->attr_remote_qpn, 28U);
  EXPECT_EQ(layout->attr_destination, 64U + 8U);
  EXPECT_EQ(layout->attr_flow_label, 64U + 24U);
  EXPECT_EQ(layout->attr_gid_index, 64U + 28U);
  EXPECT_EQ(layout->attr_port, 64U + 44U);
  EXPECT_EQ(layout->attr_port_octets, 4U);
}

// Kernels before 5.14.
TEST(QpLayout, KnowsAPortNumberOfOneOctet) {
  EXPECT_EQ(find_qp_layout(kernel_types(1).get())->attr_port_octets, 1U);
}

TEST(QpLayout, SaysWhatAnotherKernelLacks) {
  const auto layout = find_qp_layout(kernel_types(4, false).get());
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().code, Errc::unsupported);
  EXPECT_NE(layout.error().message.find("ah_attr.grh.flow_label"), std::string::npos);
  const std::unique_ptr<btf, Free> nothing(btf__new_empty());
  EXPECT_FALSE(find_qp_layout(nothing.get()));
}

}  // namespace
}  // namespace heddle
