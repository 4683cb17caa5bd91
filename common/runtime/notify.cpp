#include "common/runtime/notify.h"

#include <fmt/format.h>
#include <systemd/sd-daemon.h>

#include <string>

namespace heddle {

namespace {
// The protocol is lines of KEY=VALUE, so a status must not bring a line of its own.
std::string status_line(std::string_view status) {
  return std::string(status.substr(0, status.find('\n')));
}
}  // namespace

// Failures are left alone: systemd that was promised a notification and gets none acts by itself.
void notify_ready(std::string_view status) {
  sd_notify(0, fmt::format("READY=1\nSTATUS={}", status_line(status)).c_str());
}

void notify_status(std::string_view status) {
  sd_notify(0, fmt::format("STATUS={}", status_line(status)).c_str());
}

void notify_stopping() {
  sd_notify(0, "STOPPING=1");
}

}  // namespace heddle
