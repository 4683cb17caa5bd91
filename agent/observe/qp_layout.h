// Where a kernel keeps what is wanted of a queue pair, from the kernel's own description of its
// types (BTF). Pure; any thread.
#pragma once

#include "agent/observe/qp_connect.h"
#include "common/core/result.h"

struct btf;

namespace heddle {

// Errc::unsupported if a type or a member is missing or has another form than we know.
Result<heddle_qp_layout> find_qp_layout(const btf* types);

}  // namespace heddle
