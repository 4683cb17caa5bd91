// `heddle-agent probe`: prints what heddle could see and do on this machine. heddle-agent(8)
// documents it.
#pragma once

#include <string>

#include "agent/commands.h"
#include "agent/probe_report.h"

namespace heddle {

std::string text_of(const ProbeReport& report);
std::string json_of(const ProbeReport& report);

// kOk if flows can be seen and, on a leaf, paths can be held; else kFailed.
ExitCode print_probe(const ProbeFacts& facts, bool json);

}  // namespace heddle
