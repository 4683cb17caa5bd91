#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>
#include <memory>
#include <utility>

#include "coordinator/cli/command_line_parts.h"

namespace heddle {
namespace {

using Chosen = std::function<void(Action)>;

void add_keygen(CLI::App& root, const Chosen& chosen) {
  auto keygen = std::make_shared<Keygen>();
  keygen->folder = ".";
  CLI::App* app = root.add_subcommand("keygen", "Make a key pair; needs no coordinator");
  app->add_option("NAME", keygen->name, "Whose keys: a node's name, coordinator, or a person's")
      ->required();
  app->add_option("--dir", keygen->folder, "Folder for NAME (secret) and NAME.pub (here)")
      ->type_name("FOLDER");
  app->callback([chosen, keygen] { chosen(*keygen); });
  app->footer(
      "Examples:\n  heddle keygen --dir /etc/heddle/keys coordinator\n  heddle keygen leaf1");
}

void add_key(CLI::App& root, const Chosen& chosen) {
  static const std::map<std::string, KeyRole> kRoles{{"agent", KeyRole::agent_key},
                                                     {"viewer", KeyRole::viewer_key},
                                                     {"operator", KeyRole::operator_key}};
  const auto role_option = [](CLI::App& app, std::string& role, const char* help) {
    return app.add_option("--role", role, help)
        ->type_name("ROLE")
        ->check(CLI::IsMember({"agent", "viewer", "operator"}));
  };
  const auto folder_option = [](CLI::App& app, std::string& folder) {
    app.add_option("--dir", folder, "The coordinator's folder (/etc/heddle/authorised)")
        ->type_name("FOLDER");
  };
  struct Options {
    std::string folder{kAuthorisedKeys}, word, role, name;
  };
  CLI::App* key = root.add_subcommand(
      "key", "Who may connect, and what they may do; run it where the coordinator runs");
  key->require_subcommand(1);
  key->footer(
      "Examples:\n  heddle key add --role agent leaf1.pub\n  heddle key list\n  heddle key revoke "
      "leaf1");

  auto add = std::make_shared<Options>();
  CLI::App* add_app = key->add_subcommand("add", "Authorise a public key");
  add_app->add_option("FILE", add->word, "The public half, NAME.pub")->required();
  role_option(*add_app, add->role, "agent: of the node NAME; viewer: asks; operator: orders")
      ->required();
  add_app->add_option("--name", add->name, "Whose it is, if the file does not say");
  folder_option(*add_app, add->folder);
  add_app->callback([chosen, add] {
    chosen(KeyAdd{
        .folder = add->folder, .file = add->word, .role = kRoles.at(add->role), .name = add->name});
  });
  add_app->footer(
      "Examples:\n  heddle key add --role agent leaf1.pub\n  heddle key add --role operator "
      "--name alice /tmp/id.pub");

  auto list = std::make_shared<Options>();
  CLI::App* list_app = key->add_subcommand("list", "The authorised keys");
  folder_option(*list_app, list->folder);
  list_app->callback([chosen, list] { chosen(KeyList{.folder = list->folder}); });
  list_app->footer("Example:\n  heddle key list");

  auto revoke = std::make_shared<Options>();
  CLI::App* revoke_app = key->add_subcommand("revoke", "Take a key's rights away");
  revoke_app->add_option("NAME", revoke->word, "Whose")->required();
  role_option(*revoke_app, revoke->role, "Of which role, where one name has several keys");
  folder_option(*revoke_app, revoke->folder);
  revoke_app->callback([chosen, revoke] {
    KeyRevoke action{.folder = revoke->folder, .name = revoke->word};
    if (!revoke->role.empty())
      action.role = kRoles.at(revoke->role);
    chosen(std::move(action));
  });
  revoke_app->footer("Example:\n  heddle key revoke leaf1");
}

void add_support_bundle(CLI::App& root, const Chosen& chosen) {
  auto bundle = std::make_shared<std::string>();
  CLI::App* app = root.add_subcommand(
      "support-bundle", "Collect what a bug report needs into one file, without secrets");
  app->add_option("--output", *bundle, "The file (heddle-support-TIME.tar.gz)")->type_name("FILE");
  app->callback([chosen, bundle] { chosen(SupportBundle{.file = *bundle}); });
  app->footer(
      "It asks the coordinator, if there is one, and looks at this machine; run it on the "
      "coordinator's, and on an agent's that is in trouble.\n"
      "Example:\n  heddle support-bundle --output /tmp/heddle.tar.gz");
}

void add_fabric(CLI::App& root, const Chosen& chosen) {
  CLI::App* fabric =
      root.add_subcommand("fabric", "The fabric file, and whether the cables lie as it says");
  fabric->require_subcommand(1);
  auto check = std::make_shared<FabricCheck>();
  auto jobs = std::make_shared<std::string>();
  CLI::App* app =
      fabric->add_subcommand("check",
                             "Say how cables lie that do not lie as the coordinator's fabric file "
                             "says; with a file, say every mistake in it, without a coordinator");
  CLI::Option* file = app->add_option("FILE", check->fabric, "A fabric file");
  app->add_option("--jobs", *jobs, "A job file for this fabric")->type_name("FILE")->needs(file);
  app->callback([chosen, check, jobs] {
    if (!jobs->empty())
      check->jobs = *jobs;
    if (check->fabric.empty())
      chosen(Ask{"fabric check", {}, {}, {}});
    else
      chosen(*check);
  });
  app->footer(
      "Examples:\n  heddle fabric check\n  heddle fabric check fabric.yaml\n  heddle fabric check "
      "fabric.yaml --jobs "
      "jobs.yaml");
}

}  // namespace

void add_offline_commands(CLI::App& root, const Chosen& chosen) {
  add_keygen(root, chosen);
  add_key(root, chosen);
  add_fabric(root, chosen);
  add_support_bundle(root, chosen);
}

}  // namespace heddle
