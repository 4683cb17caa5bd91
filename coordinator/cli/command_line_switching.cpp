// The roll-out, drains and the log of decisions.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>
#include <memory>

#include "coordinator/cli/command_line_parts.h"

namespace heddle {
namespace {

using Chosen = std::function<void(Action)>;

constexpr Duration kFollow = std::chrono::seconds(1);

// --watch [SECONDS], the value of which is read when it was given.
struct Watch {
  CLI::Option* option{};
  std::shared_ptr<std::string> text{std::make_shared<std::string>()};

  explicit Watch(CLI::App& app) {
    option = app.add_option("--watch", *text, "Show it again every so many seconds (2)")
                 ->expected(0, 1)
                 ->type_name("[SECONDS]");
  }
  std::optional<Duration> period() const {
    if (option->count() == 0)
      return std::nullopt;
    double seconds = 2;
    if (!text->empty() && !CLI::detail::lexical_cast(*text, seconds))
      throw CLI::ValidationError("--watch", "'" + *text + "' is no number of seconds");
    if (!(seconds >= 0.1 && seconds <= 3600))
      throw CLI::ValidationError("--watch", "from 0.1 to 3600 seconds");
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }
};

void add_rollout(CLI::App& root, const Chosen& chosen) {
  CLI::App* rollout =
      root.add_subcommand("rollout", "Enable heddle rack by rack, watched by gates");
  rollout->require_subcommand(1);
  rollout->footer(
      "Examples:\n  heddle rollout start --waves waves.yaml\n  heddle rollout status --watch\n  "
      "heddle "
      "rollout rollback");

  auto file = std::make_shared<std::string>();
  CLI::App* start =
      rollout->add_subcommand("start", "Begin: measure, enable the first wave, watch it");
  start->add_option("--waves", *file, "The racks of each wave, and how long it soaks")
      ->type_name("FILE")
      ->required();
  start->callback([chosen, file] {
    Ask ask{"rollout start", {}, {}, {}};
    ask.files.emplace_back("--waves", *file);
    chosen(std::move(ask));
  });
  start->footer(
      "FILE is YAML: 'soak_s: 3600' for all, then 'waves:', a list of {racks: [rack1, rack2], "
      "soak_s: "
      "600}.\nExample:\n  heddle rollout start --waves waves.yaml");

  CLI::App* status = rollout->add_subcommand("status", "Where it is, and what each gate sees");
  const Watch watch(*status);
  status->callback([chosen, watch] { chosen(Ask{"rollout status", {}, {}, watch.period()}); });
  status->footer("Examples:\n  heddle rollout status\n  heddle rollout status --watch");

  constexpr std::array<std::array<const char*, 2>, 4> kVerbs{{
      {"pause", "Begin no further wave; the gates still watch"},
      {"resume", "Go on; a wave that was turned back is tried again"},
      {"abort", "End it: turn back the wave under way, keep the good ones"},
      {"rollback", "End it: turn back every wave"},
  }};
  for (const auto& [verb, help] : kVerbs) {
    CLI::App* app = rollout->add_subcommand(verb, help);
    app->callback([chosen, command = fmt::format("rollout {}", verb)] {
      chosen(Ask{command, {}, {}, {}});
    });
    app->footer(fmt::format("Example:\n  heddle rollout {}", verb));
  }
}

void add_drain(CLI::App& root, const Chosen& chosen, const std::string& name,
               const std::string& help) {
  struct Scope {
    std::string spine, leaf, cable, rack;
  };
  auto scope = std::make_shared<Scope>();
  CLI::App* app = root.add_subcommand(name, help);
  CLI::Option_group* one = app->add_option_group("what", "Exactly one of");
  one->add_option("--spine", scope->spine, "A spine, all its cables")->type_name("SPINE");
  one->add_option("--leaf", scope->leaf, "A leaf: its cables and its hosts' ports")
      ->type_name("LEAF");
  one->add_option("--cable", scope->cable, "One cable, both directions: leaf1-spine2")
      ->type_name("CABLE");
  one->add_option("--rack", scope->rack, "All leaves of a rack")->type_name("RACK");
  one->require_option(0, 1);
  app->callback([chosen, app, name, scope] {
    if (!app->get_subcommands().empty())
      return;
    const std::array<std::pair<const char*, const std::string*>, 4> kScopes{
        {{"--spine", &scope->spine},
         {"--leaf", &scope->leaf},
         {"--cable", &scope->cable},
         {"--rack", &scope->rack}}};
    for (const auto& [option, value] : kScopes)
      if (!value->empty())
        return chosen(Ask{name, {option, *value}, {}, {}});
    throw CLI::RequiredError("one of --spine, --leaf, --cable and --rack");
  });
  app->footer(
      fmt::format("Examples:\n  heddle {0} --spine spine3\n  heddle {0} --cable leaf1-spine2{1}",
                  name, name == "drain" ? "\n  heddle drain status --watch" : ""));
  if (name != "drain")
    return;
  CLI::App* status =
      app->add_subcommand("status", "What is being drained, and whether it is empty");
  const Watch watch(*status);
  status->callback([chosen, watch] { chosen(Ask{"drain status", {}, {}, watch.period()}); });
  status->footer("Examples:\n  heddle drain status\n  heddle drain status --watch");
}

}  // namespace

void add_switching_commands(CLI::App& root, const Chosen& chosen) {
  add_rollout(root, chosen);
  add_drain(root, chosen, "drain",
            "Move elephants off a spine, leaf, cable or rack, and see it empty");
  add_drain(root, chosen, "undrain", "Let flows come back to what was drained");
}

void add_plan_log(CLI::App& plan, const Chosen& chosen) {
  struct Log {
    std::uint32_t last{};
    bool follow{};
  };
  auto log = std::make_shared<Log>();
  CLI::App* app = plan.add_subcommand("log", "Every decision, also to hold, and why");
  CLI::Option* last = app->add_option("--last", log->last, "How many, the newest (20)")
                          ->type_name("N")
                          ->check(CLI::Range(1, 10'000));
  app->add_flag("--follow", log->follow, "Stay, and show each decision as it is taken");
  app->callback([chosen, log, last] {
    Ask ask{"plan log", {}, {}, {}};
    if (last->count() > 0)
      ask.arguments = {"--last", fmt::format("{}", log->last)};
    if (log->follow)
      ask.watch = kFollow;
    ask.follow = log->follow;
    chosen(std::move(ask));
  });
  app->footer(
      "Examples:\n  heddle plan log\n  heddle plan log --last 100\n  heddle plan log --follow");
}

}  // namespace heddle
