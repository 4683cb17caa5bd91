// What a daemon tells systemd about itself (sd_notify). Without systemd (no NOTIFY_SOCKET) they do
// nothing. Any thread. The watchdog is the event loop's.
#pragma once

#include <string_view>

namespace heddle {

// The daemon has started; `status` is the line that systemctl status shows.
void notify_ready(std::string_view status);
void notify_status(std::string_view status);
void notify_stopping();

}  // namespace heddle
