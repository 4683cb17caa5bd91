#include "coordinator/cli/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <variant>

#include "coordinator/cli/offline.h"
#include "coordinator/cli/render.h"
#include "coordinator/cli/table.h"

namespace heddle {
namespace {

// Cursor home; each line clears what was right of it; in the end all below. Nothing flickers.
std::string over_the_last(const std::string& text) {
  std::string out = "\x1b[H";
  for (const char c : text)
    out += c == '\n' ? "\x1b[K\n" : std::string(1, c);
  return out + "\x1b[J";
}

// What somebody at the terminal can do about it.
std::string_view advice(Errc code) {
  switch (code) {
    case Errc::permission:
      return "\nOur public key belongs in its folder of authorised keys; or choose another key "
             "with --key.";
    case Errc::io:
    case Errc::timeout:
      return "\nIs it running there (systemctl status heddle-coordinator)? --coordinator names "
             "another place,\n"
             "--server-key the key that it must have. The off switch on a machine itself: "
             "heddle-agent disable.";
    default:
      return "";
  }
}

struct Outcome {
  Exit exit{};
  std::string text;  // for standard output, or what went wrong
};

Exit exit_of(const Reply& reply) {
  const int code = reply.exit_code;
  return code <= static_cast<int>(Exit::not_found) ? static_cast<Exit>(code) : Exit::failed;
}

Outcome ask_once(const Ask& ask, CoordinatorLine& line, Duration timeout, bool json, bool colour) {
  const auto reply = line.ask(ask.command, ask.arguments, timeout);
  if (!reply)
    return {Exit::unreachable, reply.error().message + std::string(advice(reply.error().code))};
  if (const Exit exit = exit_of(*reply); exit != Exit::ok)
    return {exit, reply->error.empty() ? "the coordinator refused without saying why"
                                       : harmless(reply->error)};
  if (json)
    return {Exit::ok, reply->json + "\n"};
  auto shown = render(ask.command, reply->json, colour);
  if (!shown)
    return {Exit::failed, shown.error().message};
  return {Exit::ok, std::move(*shown)};
}

Exit answer(const Ask& ask, const Invocation& invocation, const Surroundings& at) {
  const bool json = invocation.json;
  const auto settings = settle(invocation.connection, at.config);
  if (!settings)
    return report_error(Exit::usage, settings.error().message, json, at.out, at.err);
  const auto line = at.connect(*settings);
  if (!line)
    return report_error(Exit::usage, line.error().message, json, at.out, at.err);

  const bool redraw = ask.watch && at.terminal && !json;
  for (bool first = true;; first = false) {
    const Outcome outcome = ask_once(ask, **line, settings->timeout, json, at.colour);
    const bool ok = outcome.exit == Exit::ok;
    // A watch outlives a coordinator that restarts, but does not begin without one.
    if (!ok && (first || !ask.watch))
      return report_error(outcome.exit, outcome.text, json, at.out, at.err);
    if (redraw)
      at.out << over_the_last(ok ? outcome.text : outcome.text + "\n");
    else if (ok)
      at.out << outcome.text;
    else
      report_error(outcome.exit, outcome.text, json, at.out, at.err);
    if (ask.watch && !redraw && !json)
      at.out << "\n";
    at.out.flush();
    if (!ask.watch || !at.pause(*ask.watch))
      return outcome.exit;
  }
}

}  // namespace

Exit run(const std::vector<std::string>& arguments, const Surroundings& surroundings) {
  const auto invocation = parse_command_line(arguments, surroundings.version);
  if (!invocation) {
    const Usage& usage = invocation.error();
    (usage.exit == Exit::ok ? surroundings.out : surroundings.err) << usage.text;
    return usage.exit;
  }
  struct Visitor {
    const Invocation& invocation;
    const Surroundings& at;
    const std::vector<std::string>& arguments;
    Exit operator()(const Ask& ask) const { return answer(ask, invocation, at); }
    Exit operator()(const Keygen& keygen) const {
      return make_keys(keygen, invocation.json, at.out, at.err);
    }
    Exit operator()(const FabricCheck& check) const {
      return check_fabric(check, invocation.json, at.out, at.err);
    }
    Exit operator()(const Simulate& simulate) const {
      return static_cast<Exit>(run_simulate(
          simulate, arguments,
          {.out = at.out, .err = at.err, .terminal = at.terminal, .json = invocation.json}));
    }
  };
  return std::visit(Visitor{*invocation, surroundings, arguments}, invocation->action);
}

}  // namespace heddle
