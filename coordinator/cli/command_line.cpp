// One function for each family of commands; a new family is one more of them, and one more Action.
#include "coordinator/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "coordinator/cli/command_line_parts.h"

namespace heddle {
namespace {

constexpr double kShortestWatch = 0.1;
constexpr double kLongest = 3600;

Duration seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

// What all families write into while CLI11 parses.
struct Parse {
  Invocation invocation;
  std::optional<Action> action;
};

// A command whose arguments go to the coordinator as they are.
struct AskOptions {
  std::vector<std::string> arguments;
  std::string watch;
};

CLI::App* add_ask(CLI::App& parent, Parse& parse, const std::string& name, const std::string& help,
                  const std::shared_ptr<AskOptions>& options) {
  CLI::App* app = parent.add_subcommand(name, help);
  const std::string command =
      parent.get_parent() == nullptr ? name : parent.get_name() + " " + name;
  app->callback([&parse, command, options] {
    parse.action = Ask{command, options->arguments, {}, {}};
  });
  return app;
}

// A command that may be asked again and again; `options` has its arguments.
CLI::App* add_watched(CLI::App& parent, Parse& parse, const std::string& name,
                      const std::string& help, const std::string& examples,
                      const std::shared_ptr<AskOptions>& options) {
  CLI::App* app = add_ask(parent, parse, name, help, options);
  app->footer(examples);
  CLI::Option* watch =
      app->add_option("--watch", options->watch, "Show it again every so many seconds (2)")
          ->expected(0, 1)
          ->type_name("[SECONDS]");
  const std::string command =
      parent.get_parent() == nullptr ? name : parent.get_name() + " " + name;
  app->callback([&parse, app, command, options, watch] {
    // A command of its own, as in `jobs explain`, has said already what is meant.
    if (!app->get_subcommands().empty())
      return;
    Ask ask{command, options->arguments, {}, {}};
    if (watch->count() > 0) {
      double period = 2;
      if (!options->watch.empty() && !CLI::detail::lexical_cast(options->watch, period))
        throw CLI::ValidationError("--watch", "'" + options->watch + "' is no number of seconds");
      if (!(period >= kShortestWatch && period <= kLongest))
        throw CLI::ValidationError("--watch", "from 0.1 to 3600 seconds");
      ask.watch = seconds(period);
    }
    parse.action = std::move(ask);
  });
  return app;
}

void add_queries(CLI::App& root, Parse& parse) {
  const auto watched = [&](const char* name, const char* help, const char* examples) {
    return add_watched(root, parse, name, help, examples, std::make_shared<AskOptions>());
  };
  watched("status", "The whole in a few lines",
          "Examples:\n  heddle status\n  heddle status --watch 5\n  heddle --json status | jq "
          ".efficiency.worst");
  watched("agents", "Every agent: what it runs, what it installed, what troubles it",
          "Examples:\n  heddle agents\n  heddle --json agents | jq -r '.agents[] | "
          "select(.connected | not) | .name'");
  watched("flows", "Every RoCE flow: where it runs, where it should run",
          "Examples:\n  heddle flows\n  heddle flows --watch");
  watched("links", "Every link: state, load, elephants",
          "Examples:\n  heddle links\n  heddle links --watch 1");
  CLI::App* jobs = watched("jobs", "Every job: its flows, its efficiency, its communication time",
                           "Examples:\n  heddle jobs\n  heddle jobs explain llama");
  auto job = std::make_shared<AskOptions>();
  CLI::App* explain = add_watched(*jobs, parse, "explain",
                                  "Why a job is slow: its slowest flow, and what holds that up",
                                  "Example:\n  heddle jobs explain llama", job);
  explain->add_option("JOB", job->arguments, "A job's name, as in 'heddle jobs'")
      ->required()
      ->expected(1);
}

void add_preview(CLI::App& plan, Parse& parse) {
  struct Preview {
    std::vector<std::string> down, up;
    std::string jobs, scheme;
  };
  auto preview = std::make_shared<Preview>();
  CLI::App* app = plan.add_subcommand(
      "preview", "What would be planned, and who would gain or lose; changes nothing");
  app->add_option("--down", preview->down, "If this spine, leaf, host or link were down")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  app->add_option("--up", preview->up, "If it were up")->type_name("NAME")->expected(1)->take_all();
  app->add_option("--jobs", preview->jobs, "If the jobs of this job file ran")->type_name("FILE");
  app->add_option("--scheme", preview->scheme, "If this scheme placed the flows")
      ->type_name("NAME");
  app->callback([&parse, preview] {
    Ask ask{"plan preview", {}, {}, {}};
    for (const auto& [option, names] :
         {std::pair("--down", &preview->down), std::pair("--up", &preview->up)})
      for (const std::string& name : *names)
        ask.arguments.insert(ask.arguments.end(), {option, name});
    if (!preview->scheme.empty())
      ask.arguments.insert(ask.arguments.end(), {"--scheme", preview->scheme});
    if (!preview->jobs.empty())
      ask.files.emplace_back("--jobs", preview->jobs);
    parse.action = std::move(ask);
  });
  app->footer(
      "Examples:\n  heddle plan preview --down spine3\n  heddle plan preview --up leaf1-spine2 "
      "--jobs next-week.yaml\n  heddle plan preview --scheme greedy");
}

void add_plan(CLI::App& root, Parse& parse) {
  CLI::App* plan = root.add_subcommand("plan", "The pins: which there are, what changed, and why");
  plan->require_subcommand(1);
  plan->footer(
      "Examples:\n  heddle plan show\n  heddle plan diff 3.16 3.17\n  heddle plan explain 10.1.1.2 "
      "10.2.1.2");

  auto show = std::make_shared<AskOptions>();
  CLI::App* show_app =
      add_ask(*plan, parse, "show", "A plan, the newest unless a version is given", show);
  show_app->add_option("VERSION", show->arguments, "EPOCH.GENERATION, such as 3.17")
      ->expected(0, 1);
  show_app->footer("Examples:\n  heddle plan show\n  heddle plan show 3.16");

  auto diff = std::make_shared<AskOptions>();
  CLI::App* diff_app =
      add_ask(*plan, parse, "diff",
              "What changed from one plan to another, the last two unless given", diff);
  diff_app->add_option("VERSIONS", diff->arguments, "FROM and TO")->expected(0, 2);
  diff_app->callback([&parse, diff] {
    if (diff->arguments.size() == 1)
      throw CLI::ValidationError("VERSIONS", "give two versions, or none for the last two plans");
    parse.action = Ask{"plan diff", diff->arguments, {}, {}};
  });
  diff_app->footer("Examples:\n  heddle plan diff\n  heddle plan diff 3.16 3.17");

  auto explain = std::make_shared<AskOptions>();
  CLI::App* explain_app = add_ask(
      *plan, parse, "explain", "Why a flow runs where it does, and what else there was", explain);
  explain_app->add_option("FLOW", explain->arguments, "SOURCE[:PORT] DESTINATION")
      ->required()
      ->expected(1, 2);
  // One argument however it was quoted.
  explain_app->callback([&parse, explain] {
    std::string flow = explain->arguments.front();
    if (explain->arguments.size() == 2)
      flow += " " + explain->arguments.back();
    parse.action = Ask{"plan explain", {flow}, {}, {}};
  });
  explain_app->footer(
      "Examples:\n  heddle plan explain 10.1.1.2 10.2.1.2\n  heddle plan explain 10.1.1.2:51986 "
      "10.2.1.2");
  add_preview(*plan, parse);
  add_plan_log(*plan, [&parse](Action action) { parse.action = std::move(action); });
}

void add_switch(CLI::App& root, Parse& parse, const std::string& name, const std::string& help) {
  struct Scope {
    bool all{};
    std::string node, rack, job;
  };
  auto scope = std::make_shared<Scope>();
  CLI::App* app = root.add_subcommand(name, help);
  CLI::Option_group* one = app->add_option_group("what", "Exactly one of");
  one->add_flag("--all", scope->all, "Everything");
  one->add_option("--node", scope->node, "One host or switch")->type_name("NODE");
  one->add_option("--rack", scope->rack, "The nodes of a rack")->type_name("RACK");
  one->add_option("--job", scope->job, "The flows of a job")->type_name("JOB");
  one->require_option(1);
  app->callback([&parse, name, scope] {
    Ask ask{name, {}, {}, {}};
    if (scope->all)
      ask.arguments = {"--all"};
    if (!scope->node.empty())
      ask.arguments = {"--node", scope->node};
    if (!scope->rack.empty())
      ask.arguments = {"--rack", scope->rack};
    if (!scope->job.empty())
      ask.arguments = {"--job", scope->job};
    parse.action = std::move(ask);
  });
  app->footer(
      fmt::format("Without a coordinator, on the machine itself: heddle-agent {0}\n"
                  "Examples:\n  heddle {0} --all\n  heddle {0} --rack rack7",
                  name));
}

void add_job(CLI::App& root, Parse& parse) {
  CLI::App* job = root.add_subcommand("job", "Say which hosts work together");
  job->require_subcommand(1);
  job->footer(
      "Examples:\n  heddle job declare llama h1-1 h2-1 h3-1\n  heddle job list\n  heddle job "
      "remove llama");

  auto declare = std::make_shared<AskOptions>();
  CLI::App* declare_app =
      add_ask(*job, parse, "declare", "Declare a job, or change its hosts", declare);
  declare_app
      ->add_option("NAME_AND_HOSTS", declare->arguments, "The job's name, then its hosts' names")
      ->required()
      ->expected(2, 100'000)
      ->type_name("NAME HOST...");
  declare_app->footer("Example:\n  heddle job declare llama h1-1 h2-1 h3-1");

  auto list = std::make_shared<AskOptions>();
  add_ask(*job, parse, "list", "The declared jobs", list)->footer("Example:\n  heddle job list");

  auto remove = std::make_shared<AskOptions>();
  CLI::App* remove_app =
      add_ask(*job, parse, "remove", "Forget a declaration; the job's flows go on", remove);
  remove_app->add_option("NAME", remove->arguments, "The job")->required()->expected(1);
  remove_app->footer("Example:\n  heddle job remove llama");
}

struct GlobalOptions {
  std::string coordinator, key, server_key, config;
  double timeout{3};
};

void add_global_options(CLI::App& root, Parse& parse, GlobalOptions& options) {
  ConnectionOptions& connection = parse.invocation.connection;
  root.add_option("--coordinator", options.coordinator, "Where it listens: tcp://10.255.0.1:7117")
      ->type_name("ENDPOINT");
  root.add_option("--key", options.key, "Our secret key (made by 'heddle keygen')")
      ->type_name("FILE");
  root.add_option("--server-key", options.server_key, "The coordinator's public key")
      ->type_name("FILE");
  root.add_option("--config", options.config,
                  "Where the three above come from otherwise (/etc/heddle/heddle.yaml)")
      ->type_name("FILE");
  root.add_flag("--plain", connection.plain,
                "Without keys, as a coordinator for tests on one machine allows");
  root.add_option("--timeout", options.timeout, "How long to wait for an answer (3)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, kLongest));
  root.add_flag("--json", parse.invocation.json, "Print the coordinator's JSON, not a table");
}

// The program's description, and every family of commands.
void build(CLI::App& root, Parse& parse, GlobalOptions& options, std::string_view version) {
  root.description("heddle places the flows of machine-learning training on a leaf-spine network.");
  root.name("heddle");
  root.require_subcommand(1);
  root.fallthrough();  // so that --json may stand anywhere
  root.set_version_flag("--version", fmt::format("heddle {}", version));
  root.footer(
      "Exit codes: 0 done; 1 refused, or mistakes found; 2 wrong usage; 3 no coordinator; 4 no "
      "such thing.\n"
      "'heddle COMMAND --help' has examples; heddle(1) is the manual.");
  add_global_options(root, parse, options);
  add_queries(root, parse);
  add_plan(root, parse);
  add_switch(root, parse, "disable", "Put traffic back on ECMP, and keep it there");
  add_switch(root, parse, "enable", "Let heddle place flows again");
  add_switching_commands(root, [&parse](Action action) { parse.action = std::move(action); });
  add_job(root, parse);
  add_offline_commands(root, [&parse](Action action) { parse.action = std::move(action); });
  add_simulate(root, [&parse](Simulate simulate) { parse.action = std::move(simulate); });
}

void collect_words(const CLI::App& app, const std::string& command,
                   std::vector<CommandWords>& out) {
  CommandWords words{command, {}};
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      words.options.push_back("--" + name);
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name().empty()) {  // a group of options
      for (const CLI::Option* option : sub->get_options())
        for (const std::string& name : option->get_lnames())
          words.options.push_back("--" + name);
    } else {
      collect_words(*sub, command.empty() ? sub->get_name() : command + " " + sub->get_name(), out);
    }
  }
  out.push_back(std::move(words));
}

}  // namespace

tl::expected<Invocation, Usage> parse_command_line(const std::vector<std::string>& arguments,
                                                   std::string_view version) {
  CLI::App root;
  Parse parse;
  GlobalOptions options;
  build(root, parse, options, version);
  try {
    root.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    // CLI11 knows which command's help was asked for only by which was parsed.
    const CLI::App* asked = &root;
    std::string before;  // what is typed before its name
    while (!asked->get_subcommands().empty()) {
      before += (before.empty() ? "" : " ") + asked->get_name();
      asked = asked->get_subcommands().back();
    }
    return tl::unexpected(Usage{Exit::ok, asked->help(before)});
  } catch (const CLI::CallForVersion& version_text) {
    return tl::unexpected(Usage{Exit::ok, std::string(version_text.what()) + "\n"});
  } catch (const CLI::Error& error) {
    return tl::unexpected(
        Usage{Exit::usage,
              fmt::format("heddle: {}\n'heddle --help' shows how it is used.\n", error.what())});
  }
  ConnectionOptions& connection = parse.invocation.connection;
  if (!options.coordinator.empty())
    connection.coordinator = options.coordinator;
  if (!options.key.empty())
    connection.key = options.key;
  if (!options.server_key.empty())
    connection.server_key = options.server_key;
  if (!options.config.empty())
    connection.config = options.config;
  connection.timeout = seconds(options.timeout);
  parse.invocation.action = std::move(*parse.action);
  return std::move(parse.invocation);
}

std::vector<CommandWords> all_command_words() {
  CLI::App root;
  Parse parse;
  GlobalOptions options;
  build(root, parse, options, "");
  std::vector<CommandWords> words;
  collect_words(root, "", words);
  return words;
}

}  // namespace heddle
