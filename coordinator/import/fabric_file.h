// Reads the two files in which operators describe their network: the fabric (leaves, spines, hosts,
// cables) and the jobs. Every mistake is reported with its line, not only the first, because a file
// for a thousand hosts is not debugged one error at a time. YAML exceptions stop here. No state;
// any thread.
//
//   fabric: demo
//   leaves: [{name: leaf1, rack: rack1}]
//   spines: [{name: spine1}]
//   hosts:
//     - name: h1-1
//       rack: rack1
//       nics: [{name: eth0, address: 10.1.1.2, attachments: [{leaf: leaf1, port: p1, capacity:
//       100G}]}]
//   cables: [{leaf: leaf1, spine: spine1, leaf_port: up1, spine_port: d1, capacity: 100G}]
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "common/core/job.h"
#include "common/core/topology.h"

namespace heddle {

using Mistakes = std::vector<Mistake>;  // in the order of their lines; line 0: the file as a whole

// From text. Anchors and aliases are mistakes (a few bytes of them can stand for gigabytes), so are
// nesting beyond what the format needs and more than 16 MiB of text.
tl::expected<Topology, Mistakes> parse_fabric(std::string_view yaml);
tl::expected<Topology, Mistakes> load_fabric(const std::string& path);

// jobs: [{name: A, hosts: [h1-1, h2-1]}]. Hosts that the topology does not have are mistakes; a
// host may take part in several jobs.
tl::expected<std::vector<JobDeclaration>, Mistakes> parse_jobs(std::string_view yaml,
                                                               const Topology& topology);
tl::expected<std::vector<JobDeclaration>, Mistakes> load_jobs(const std::string& path,
                                                              const Topology& topology);

// "100G", "2.5T", "400000000": bits per second, with decimal K, M, G or T.
Result<Rate> parse_capacity(std::string_view text);

// One line for each mistake: "fabric.yaml:12: leaf 'leaf9' is not among the leaves".
std::string describe(std::string_view file, const Mistakes& mistakes);

}  // namespace heddle
