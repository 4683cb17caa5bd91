#include "coordinator/cli/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <ostream>
#include <sstream>
#include <variant>

#include "coordinator/cli/json_view.h"
#include "coordinator/cli/key_command.h"
#include "coordinator/cli/offline.h"
#include "coordinator/cli/render.h"
#include "coordinator/cli/support_bundle.h"
#include "coordinator/cli/table.h"
#include "coordinator/import/waves_file.h"

namespace heddle {
namespace {

// A file that goes with a question, such as a job file.
constexpr std::size_t kLongestFile = std::size_t{1} << 20;

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
  std::string text;        // for standard output, or what went wrong
  std::string reply{};     // the coordinator's
  Exit verdict{Exit::ok};  // what a check that was done has found
};

Exit exit_of(const Reply& reply) {
  const int code = reply.exit_code;
  return code <= static_cast<int>(Exit::not_found) ? static_cast<Exit>(code) : Exit::failed;
}

Outcome ask_once(const Ask& ask, CoordinatorLine& line, Duration timeout, bool json, bool colour) {
  const auto reply = line.ask(ask.command, ask.arguments, timeout);
  if (!reply)
    return {Exit::unreachable, reply.error().message + std::string(advice(reply.error().code))};
  const Exit exit = exit_of(*reply);
  const bool found_mistakes = exit == Exit::failed && reply->error.empty() && !reply->json.empty();
  if (exit != Exit::ok && !found_mistakes)
    return {exit, reply->error.empty() ? "the coordinator refused without saying why"
                                       : harmless(reply->error)};
  if (json)
    return {Exit::ok, reply->json + "\n", reply->json, exit};
  auto shown = render(ask.command, reply->json, colour);
  if (!shown)
    return {Exit::failed, shown.error().message};
  return {Exit::ok, std::move(*shown), reply->json, exit};
}

// Whether a log's reply has anything new; the next question is about what comes behind it.
bool go_on_behind(const std::string& reply, Ask& ask) {
  const Json log = Json::parse(reply, nullptr, false);
  if (elements(log, "decisions").empty())
    return false;
  ask.arguments = {"--after", text(member(log, "next"))};
  return true;
}

// The arguments with the files' texts among them.
Result<Ask> with_files(Ask ask) {
  for (const auto& [option, file] : ask.files) {
    std::ifstream in(file, std::ios::binary);
    std::stringstream text;
    if (in.peek() != std::ifstream::traits_type::eof())
      text << in.rdbuf();
    if (!in.is_open() || in.bad())
      return fail(Errc::io, fmt::format("{}: cannot be read", file.string()));
    if (text.view().size() > kLongestFile)
      return fail(Errc::invalid_argument, fmt::format("{}: more than 1 MiB", file.string()));
    if (option == "--waves") {
      const auto waves = parse_waves(text.view());
      if (!waves)
        return fail(Errc::parse, describe(file.string(), waves.error()));
      for (const WaveLine& wave : *waves) {
        ask.arguments.insert(ask.arguments.end(), {"--wave", fmt::format("{}", wave.soak_seconds)});
        ask.arguments.insert(ask.arguments.end(), wave.racks.begin(), wave.racks.end());
      }
      continue;
    }
    ask.arguments.insert(ask.arguments.end(), {option, text.str()});
  }
  ask.files.clear();
  return ask;
}

Exit answer(const Ask& asked, const Invocation& invocation, const Surroundings& at) {
  const bool json = invocation.json;
  const Result<Ask> complete = with_files(asked);
  if (!complete)
    return report_error(Exit::usage, complete.error().message, json, at.out, at.err);
  Ask ask = *complete;
  const auto settings = settle(invocation.connection, at.config);
  if (!settings)
    return report_error(Exit::usage, settings.error().message, json, at.out, at.err);
  const auto line = at.connect(*settings);
  if (!line)
    return report_error(Exit::usage, line.error().message, json, at.out, at.err);

  const bool redraw = ask.watch && !ask.follow && at.terminal && !json;
  for (bool first = true;; first = false) {
    const Outcome outcome = ask_once(ask, **line, settings->timeout, json, at.colour);
    const bool ok = outcome.exit == Exit::ok;
    // A watch outlives a coordinator that restarts, but does not begin without one.
    if (!ok && (first || !ask.watch))
      return report_error(outcome.exit, outcome.text, json, at.out, at.err);
    const bool nothing_new = ok && ask.follow && !go_on_behind(outcome.reply, ask) && !first;
    if (redraw)
      at.out << over_the_last(ok ? outcome.text : outcome.text + "\n");
    else if (ok && !nothing_new)
      at.out << outcome.text;
    else if (!ok)
      report_error(outcome.exit, outcome.text, json, at.out, at.err);
    if (ask.watch && !ask.follow && !redraw && !json)
      at.out << "\n";
    at.out.flush();
    if (!ask.watch || !at.pause(*ask.watch))
      return ok ? outcome.verdict : outcome.exit;
  }
}

Exit bundle(const SupportBundle& wanted, const Invocation& invocation, const Surroundings& at) {
  const auto settings = settle(invocation.connection, at.config);
  Result<std::unique_ptr<CoordinatorLine>> line =
      settings ? at.connect(*settings) : tl::unexpected(settings.error());
  // Without a coordinator, or a key for it, there is this machine to tell of.
  const auto ask = [&](const std::string& command) -> Result<Reply> {
    return line ? (*line)->ask(command, {}, settings->timeout) : tl::unexpected(line.error());
  };
  return collect_bundle(wanted,
                        {.ask = ask, .shell = at.shell, .version = at.version, .now = at.now},
                        invocation.json, at.out, at.err);
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
    Exit operator()(const KeyAdd& add) const {
      return add_key(add, invocation.json, at.out, at.err);
    }
    Exit operator()(const KeyList& list) const {
      return list_keys(list, invocation.json, at.colour, at.out, at.err);
    }
    Exit operator()(const KeyRevoke& revoke) const {
      return revoke_key(revoke, invocation.json, at.out, at.err);
    }
    Exit operator()(const SupportBundle& wanted) const { return bundle(wanted, invocation, at); }
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
