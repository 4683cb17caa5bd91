// Reads and writes job files of the kind that the paper's first author published with a simulator:
// one file a job, one line a flow of a ring. Files of other people, so every line is checked. No
// state; any thread.
//
//   #src dst src_tor dst_tor start_time flow_size compute_time stage_index
//   544 256 14 5 10978710563 7333333334 1238769231 0
//
// Nodes are numbered: 64 leaves from 0, 32 spines from 64, then the servers, 32 to a leaf. Times
// are nanoseconds, the flow size is what one member of the ring sends in one round, and the last
// column numbers the rings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/core/result.h"
#include "coordinator/simulate/workload.h"

namespace heddle::sim {

// The fabric that the node numbers speak of.
inline constexpr std::uint32_t kPaperLeaves = 64;
inline constexpr std::uint32_t kPaperSpines = 32;
inline constexpr std::uint32_t kPaperNicsPerLeaf = 32;

// One file. Errc::parse names file and line: a wrong number of columns, a server that is not on the
// leaf that the line says, a flow to itself, a ring that is not closed, sizes that are zero, times
// that differ within the job.
Result<SimJob> parse_paper_job(std::string_view text, const std::string& name);
// All "job_<number>-<model>.txt" of a folder, by number.
Result<Workload> load_paper_jobs(const std::string& folder);
// The same form again; for jobs that are rings only.
std::string write_paper_job(const SimJob& job);

}  // namespace heddle::sim
