#include "coordinator/cli/key_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <system_error>
#include <vector>

#include "common/transport/keys.h"
#include "coordinator/cli/human.h"
#include "coordinator/cli/offline.h"
#include "coordinator/cli/table.h"
#include "coordinator/import/fields.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::array kRoles{KeyRole::agent_key, KeyRole::viewer_key, KeyRole::operator_key,
                            KeyRole::unstated};

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

struct Found {
  std::string name;
  KeyRole role{};
  std::string key;  // empty: the file holds none
  fs::path file;
};

// What lies in the folder, authorised or not.
Result<std::vector<Found>> find_keys(const fs::path& folder) {
  std::vector<Found> all;
  for (const KeyRole role : kRoles) {
    std::error_code error;
    std::vector<fs::path> files;
    for (fs::directory_iterator it(role_folder(folder, role), error), end; !error && it != end;
         it.increment(error))
      if (const std::string name = it->path().filename().string();
          name.ends_with(".pub") && !name.starts_with('.'))
        files.push_back(it->path());
    if (error && (role == KeyRole::unstated || error != std::errc::no_such_file_or_directory))
      return fail(Errc::io,
                  fmt::format("{}: {}", role_folder(folder, role).string(), error.message()));
    std::ranges::sort(files);
    for (const fs::path& file : files)
      all.push_back({.name = file.stem().string(),
                     .role = role,
                     .key = load_public_key(file).value_or(""),
                     .file = file});
  }
  return all;
}

// It is there whole or not at all, so that the coordinator never reads half a key.
Result<void> put(const fs::path& file, const std::string& key) {
  std::error_code error;
  // The coordinator, which is another user, reads it, whatever our umask.
  if (fs::create_directories(file.parent_path(), error))
    fs::permissions(file.parent_path(), fs::perms(0755), error);
  if (error)
    return fail(Errc::io, fmt::format("{}: {}", file.parent_path().string(), error.message()));
  const fs::path fresh = file.parent_path() / ("." + file.filename().string() + ".new");
  {
    std::ofstream out(fresh, std::ios::trunc);
    out << key << "\n";
    out.flush();
    if (!out)
      return fail(Errc::io, fmt::format("{}: cannot be written", fresh.string()));
  }
  fs::permissions(fresh, fs::perms(0644), error);
  if (!error)
    fs::rename(fresh, file, error);
  if (error) {
    std::error_code ignored;
    fs::remove(fresh, ignored);
    return fail(Errc::io, fmt::format("{}: {}", file.string(), error.message()));
  }
  return {};
}

std::string advice(const fs::path& folder) {
  return fmt::format(
      "\nIs {} the coordinator's authorised_keys on this machine, and may you write "
      "there? --dir names another.",
      folder.string());
}

}  // namespace

Exit add_key(const KeyAdd& add, bool json, std::ostream& out, std::ostream& err) {
  const auto refuse = [&](Exit exit, const std::string& why) {
    return report_error(exit, why, json, out, err);
  };
  // A secret key looks like a public one: only its name tells.
  if (!add.file.filename().string().ends_with(".pub"))
    return refuse(Exit::usage, fmt::format("{} does not end in .pub: give the public half of the "
                                           "key; the secret one stays with its owner",
                                           add.file.string()));
  const std::string name = add.name.empty() ? add.file.stem().string() : add.name;
  if (const std::string fault = name_fault(name); !fault.empty())
    return refuse(Exit::usage, fault);
  const auto key = load_public_key(add.file);
  if (!key)
    return refuse(key.error().code == Errc::not_found ? Exit::not_found : Exit::failed,
                  key.error().message);
  const auto found = find_keys(add.folder);
  if (!found)
    return refuse(Exit::failed, found.error().message + advice(add.folder));

  const fs::path file = role_folder(add.folder, add.role) / (name + ".pub");
  const bool first_operator = add.role == KeyRole::operator_key &&
                              !fs::is_directory(role_folder(add.folder, KeyRole::operator_key));
  std::optional<fs::path> moved;
  std::string silenced;
  for (const Found& other : *found) {
    if (other.file == file && other.key != *key)
      return refuse(Exit::failed,
                    fmt::format("{} is there with another key; 'heddle key revoke {}' first",
                                file.string(), name));
    if (other.key == *key && other.file != file) {
      if (other.role != KeyRole::unstated)
        return refuse(Exit::failed,
                      fmt::format("the key is authorised as {} '{}' already; 'heddle key revoke "
                                  "{}' first",
                                  to_string(other.role), other.name, other.name));
      moved = other.file;
    } else if (other.role == KeyRole::unstated && other.key != *key) {
      silenced += (silenced.empty() ? "" : ", ") + other.name;
    }
  }
  if (const auto written = put(file, *key); !written)
    return refuse(Exit::failed, written.error().message + advice(add.folder));
  if (moved) {
    std::error_code error;
    fs::remove(*moved, error);
    if (error)
      return refuse(Exit::failed,
                    fmt::format("{}: {}; while the key is in two places, neither is authorised",
                                moved->string(), error.message()));
  }
  if (json) {
    out << dump({{"name", name},
                 {"role", to_string(add.role)},
                 {"file", file.string()},
                 {"moved_from", moved ? Json(moved->string()) : Json()}});
    return Exit::ok;
  }
  out << fmt::format("{} '{}' is authorised: {}\n", to_string(add.role), name, file.string());
  if (moved)
    out << fmt::format("{} is gone: it said nothing of a role.\n", moved->string());
  if (first_operator && !silenced.empty())
    out << fmt::format(
        "Now that operators are named, the keys right in {} are agents' alone: {}.\n"
        "An operator's among them needs 'heddle key add --role operator'.\n",
        add.folder.string(), silenced);
  return Exit::ok;
}

Exit list_keys(const KeyList& list, bool json, bool colour, std::ostream& out, std::ostream& err) {
  const auto found = find_keys(list.folder);
  const auto authorised = load_authorised_keys(list.folder);
  if (!found || !authorised)
    return report_error(Exit::failed,
                        (found ? authorised.error() : found.error()).message + advice(list.folder),
                        json, out, err);
  Json keys = Json::array();
  Table table({{"NAME"}, {"ROLE"}, {"AUTHORISED"}, {"KEY"}});
  bool guessed = false;
  for (const Found& one : *found) {
    const auto owner = authorised->owners.find(one.key);
    const bool valid = owner != authorised->owners.end() && owner->second.name == one.name;
    // What the coordinator takes it for, which for a key without a role may be an agent.
    const KeyRole role = valid ? owner->second.role : one.role;
    guessed = guessed || role == KeyRole::unstated;
    keys.push_back({{"name", one.name},
                    {"role", to_string(role)},
                    {"authorised", valid},
                    {"key", one.key.empty() ? Json() : Json(one.key)},
                    {"file", one.file.string()}});
    table.add(
        {{one.name},
         {std::string(to_string(role)), role == KeyRole::unstated ? Tone::warning : Tone::plain},
         {valid ? "yes" : "no", valid ? Tone::good : Tone::bad},
         {one.key.empty() ? "?" : one.key}});
  }
  if (json) {
    out << dump({{"keys", std::move(keys)}, {"problems", authorised->problems}});
    return Exit::ok;
  }
  out << (table.empty() ? "No key is authorised.\n" : table.text(colour));
  if (guessed)
    out << "\nunstated: an agent's if the fabric has a node of that name, else an operator's. Say "
           "which with 'heddle key add --role'.\n";
  for (const std::string& problem : authorised->problems)
    out << "\n" << harmless(problem) << "\n";
  return Exit::ok;
}

Exit revoke_key(const KeyRevoke& revoke, bool json, std::ostream& out, std::ostream& err) {
  const auto found = find_keys(revoke.folder);
  if (!found)
    return report_error(Exit::failed, found.error().message + advice(revoke.folder), json, out,
                        err);
  std::vector<Found> named;
  for (const Found& one : *found)
    if (one.name == revoke.name && (!revoke.role || one.role == *revoke.role))
      named.push_back(one);
  if (named.empty())
    return report_error(Exit::not_found,
                        fmt::format("no key of '{}' is in {}; 'heddle key list' shows which are",
                                    revoke.name, revoke.folder.string()),
                        json, out, err);
  if (named.size() > 1)
    return report_error(
        Exit::usage,
        fmt::format("'{}' has {} keys; say which with --role", revoke.name, named.size()), json,
        out, err);
  std::error_code error;
  fs::remove(named[0].file, error);
  if (error)
    return report_error(
        Exit::failed,
        fmt::format("{}: {}{}", named[0].file.string(), error.message(), advice(revoke.folder)),
        json, out, err);
  if (json)
    out << dump({{"name", revoke.name},
                 {"role", to_string(named[0].role)},
                 {"file", named[0].file.string()}});
  else
    out << fmt::format(
        "'{}' is revoked: {} is gone, and the coordinator hears nothing from that "
        "key any more.\n",
        revoke.name, named[0].file.string());
  return Exit::ok;
}

}  // namespace heddle
