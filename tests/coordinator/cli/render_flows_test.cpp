#include <gtest/gtest.h>

#include "coordinator/cli/render.h"

namespace heddle {
namespace {

std::string shown(const std::string& json) {
  return render("flows", json, false).value();
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(RenderFlows, ShowTheQueuePairItsProcessAndTheSource) {
  const std::string out = shown(R"({"flows":[{"source":"10.1.1.2","source_port":51986,
    "destination":"10.2.1.2","dest_qpn":200,"local_qpn":178,"pid":197,"sender":"h1-1",
    "peer":"wire","rate_bps":8000000,"bytes":1000,"sources":["h1-1:ebpf+rdma"]}]})");
  EXPECT_TRUE(holds(out, "178 > 200")) << out;
  EXPECT_TRUE(holds(out, "197 on h1-1")) << out;
  EXPECT_TRUE(holds(out, "h1-1:ebpf+rdma")) << out;
  EXPECT_FALSE(holds(out, "(wire)")) << out;
}

TEST(SafetyRule7, FlowsThatNobodyCountsAreShownAsUnknownAndHowTheirPeerIsKnown) {
  const std::string out = shown(R"({"flows":[{"source":"10.1.1.2","source_port":51986,
    "destination":"10.2.1.2","dest_qpn":200,"local_qpn":178,"peer":"inferred",
    "rate_bps":"unobservable","bytes":"unobservable","sources":["h1-1:rdma"]}]})");
  EXPECT_TRUE(holds(out, "10.2.1.2 (inferred)")) << out;
  EXPECT_TRUE(holds(out, "cannot be observed")) << out;
  EXPECT_FALSE(holds(out, " 0 ")) << out;
  EXPECT_FALSE(holds(out, "PROCESS")) << out;
}

TEST(SafetyRule7, AQueuePairWhosePeerNobodyKnowsIsShownWithAPeerThatIsUnobservable) {
  const std::string out = shown(R"({"flows":[{"source":"10.1.1.2","source_port":null,
    "destination":"unobservable","dest_qpn":200,"local_qpn":178,"pid":197,"sender":"h1-1",
    "peer":null,"elephant":false,"label":"slurm:5.0","label_origin":"cgroup on h1-1",
    "rate_bps":"unobservable","bytes":"unobservable","sources":["h1-1:rdma"]}]})");
  EXPECT_TRUE(holds(out, "10.1.1.2 ")) << out;
  EXPECT_TRUE(holds(out, " unobservable ")) << out;
  EXPECT_TRUE(holds(out, "178 > 200")) << out;
  EXPECT_TRUE(holds(out, "197 on h1-1")) << out;
  EXPECT_TRUE(holds(out, "slurm:5.0 (cgroup on h1-1)")) << out;
  EXPECT_FALSE(holds(out, "mouse")) << "what nobody counts may be an elephant\n" << out;
}

TEST(RenderFlows, SayHowMuchOfWhatAPortSendsIsUnexplained) {
  const std::string out = shown(R"({"flows":[],"ports":[
    {"node":"h1-1","port":"eth0","device":"mlx5_0","hidden":false,"counted_by":"rdma",
     "rate_bps":100000000,"explained_bps":60000000,"unexplained_bps":40000000},
    {"node":"h1-2","port":"eth0","device":"mlx5_1","hidden":true,"counted_by":"interface",
     "rate_bps":null,"explained_bps":0,"unexplained_bps":null}]})");
  EXPECT_TRUE(holds(out, "100 Mbit/s")) << out;
  EXPECT_TRUE(holds(out, "40 Mbit/s") || holds(out, "40.0 Mbit/s")) << out;
  EXPECT_TRUE(holds(out, "mlx5_1 (hidden)")) << out;
}

}  // namespace
}  // namespace heddle
