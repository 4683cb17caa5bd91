// The tables, one function for each command; render.cpp chooses. Pure functions; any thread.
#pragma once

#include <string>

#include "coordinator/cli/json_view.h"
#include "coordinator/cli/table.h"

namespace heddle {

std::string render_status(const Json& reply, bool colour);
std::string render_agents(const Json& reply, bool colour);
std::string render_flows(const Json& reply, bool colour);
std::string render_jobs(const Json& reply, bool colour);
std::string render_links(const Json& reply, bool colour);
std::string render_cables(const Json& reply, bool colour);
std::string render_declarations(const Json& reply, bool colour);
std::string render_plan(const Json& reply, bool colour);
std::string render_plan_diff(const Json& reply, bool colour);
std::string render_explanation(const Json& reply, bool colour);
std::string render_rollout(const Json& reply, bool colour);
std::string render_drains(const Json& reply, bool colour);
std::string render_decisions(const Json& reply, bool colour);
std::string render_switched(const Json& reply, bool colour);
std::string render_preview(const Json& reply, bool colour);
std::string render_job_explanation(const Json& reply, bool colour);

// The counters of the ports at a flow's ends, where there are any.
std::string render_congestion(const Json& reply, bool colour);

// "0.975", coloured by whether it needs a look; "?" if unknown.
Cell efficiency_cell(const Json& value);

// A plan's moves under their heading; nothing if there are none.
std::string render_moves(const Json& reply, bool colour);

// A list's table, with a word on "?" where it has one; or one line that says why there is no table.
std::string table_or(const Table& table, std::string_view if_empty, bool colour);

}  // namespace heddle
