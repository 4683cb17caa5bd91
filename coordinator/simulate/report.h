// The page of `heddle simulate --report`: everything in one HTML file that opens from disk, without
// a network and without scripts. Pure.
#pragma once

#include <string>

#include "coordinator/simulate/output.h"
#include "coordinator/simulate/sweep.h"

namespace heddle::sim {

// `command` is what to type to get the page again.
std::string report_html(const Sweep& sweep, const std::string& command,
                        const OutputOptions& options);

}  // namespace heddle::sim
