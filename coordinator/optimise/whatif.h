// What if: links that would be down or up, jobs that would run. Copies of the live state are
// changed and planned as if they were so.
//
// Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "common/core/job.h"
#include "common/core/optimiser.h"
#include "common/core/result.h"
#include "common/core/topology.h"
#include "coordinator/predict/prediction.h"

namespace heddle {

// The links of a leaf, a spine or a host, or both directions of the cable that a link's name is of
// ("leaf1-spine2"). Errc::not_found names what the fabric does not have.
Result<std::vector<LinkId>> links_named(const Topology& topology, const std::string& name);

// All links of these are down, or up. What is up is offered by routing again, too.
void assume_down(const std::vector<LinkId>& links, LinkState& state);
void assume_up(const Topology& topology, const std::vector<LinkId>& links, LinkState& state,
               std::vector<Forbidden>& forbidden);

// A job that is not seen yet, as a ring through its hosts in their order: a flow from each NIC to
// the same NIC of the next host, of one queue pair, all of one weight.
void expect_job(const Topology& topology, const JobDeclaration& job, Prediction& prediction);

}  // namespace heddle
