#include "coordinator/cli/support_bundle.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/transport/keys.h"
#include "coordinator/cli/archive.h"
#include "coordinator/cli/human.h"
#include "coordinator/cli/offline.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kRemoved = "[key removed]";
constexpr std::size_t kKeyCharacters = 40;
constexpr std::size_t kLongestFile = std::size_t{8} << 20;

constexpr std::array<std::string_view, 10> kQuestions{
    "status",    "agents",    "flows",    "jobs",     "links",
    "plan show", "plan diff", "plan log", "job list", "rollout status"};

// What this machine is asked, by the file that the answer goes to. Commands that are not there say
// so in that file.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kMachine{{
    {"machine/system.txt", "uname -a; cat /etc/os-release; uptime"},
    {"machine/software.txt",
     "heddle-agent --version; heddle-coordinator --version; dpkg-query -W 'heddle*'"},
    {"machine/services.txt", "systemctl --no-pager status 'heddle-*'"},
    {"machine/journal.txt", "journalctl --no-pager -o short-iso -n 5000 -u 'heddle-*'"},
    {"machine/agent.txt", "heddle-agent status"},
    {"machine/links.txt", "ip -s -d link show"},
    {"machine/addresses.txt", "ip address show"},
    {"machine/rules.txt", "ip -4 -d rule show; ip -6 -d rule show"},
    {"machine/routes.txt", "ip -4 route show table all; ip -6 route show table all"},
    {"machine/nexthops.txt", "ip nexthop show"},
    {"machine/neighbours.txt", "ip neighbour show"},
    {"machine/rdma.txt", "rdma link show"},
    {"machine/settings.txt", "sysctl -a --pattern 'fib_multipath|rp_filter|linkdown'"},
}};

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kLongestFile, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

bool key_character(char c) {
  constexpr std::string_view kZ85 =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
  return kZ85.find(c) != std::string_view::npos;
}

// The secret halves that lie where keys are kept, so that they are known wherever else they turn
// up.
std::vector<std::string> secrets_in(const fs::path& folder) {
  std::vector<std::string> secrets;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_regular_file() || it->path().extension() == ".pub")
      continue;
    std::string text = read_text(it->path());
    if (text.ends_with('\n'))
      text.pop_back();
    if (is_key(text))
      secrets.push_back(std::move(text));
  }
  return secrets;
}

std::string file_name(std::string_view question) {
  std::string name(question);
  std::ranges::replace(name, ' ', '-');
  return name;
}

// Every file below a folder with its size, without any content.
std::string listing(const fs::path& folder) {
  std::string out;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    const std::uintmax_t size = it->is_regular_file(ignored) ? it->file_size(ignored) : 0;
    out += fmt::format("{:>12} {}\n", size, it->path().string());
  }
  if (error)
    out += fmt::format("{}: {}\n", folder.string(), error.message());
  return out;
}

std::map<std::string, std::string> collect(const BundleSources& sources, std::string& missing) {
  std::map<std::string, std::string> files;
  files["version.txt"] = fmt::format("heddle {}\n", sources.version);
  for (const std::string_view question : kQuestions) {
    const auto reply = sources.ask(std::string(question));
    if (!reply) {
      missing = reply.error().message;
      files["coordinator/not-reached.txt"] = missing + "\n";
      break;  // The others would wait for nothing, too.
    }
    const std::string answered =
        reply->exit_code == 0
            ? reply->json
            : Json{{"error", reply->error}}.dump(-1, ' ', false, Json::error_handler_t::replace);
    files[fmt::format("coordinator/{}.json", file_name(question))] = fmt::format("{}\n", answered);
  }
  std::error_code error;
  for (fs::directory_iterator it(sources.configuration, error), end; !error && it != end;
       it.increment(error))
    if (const std::string name = it->path().filename().string();
        name.ends_with(".yaml") && it->is_regular_file())
      files["configuration/" + name] = read_text(it->path());
  files["configuration/files.txt"] = listing(sources.configuration);
  files["state/files.txt"] = listing(sources.state);
  for (int i = 0; i <= 4; ++i) {
    const std::string name = i == 0 ? "audit.log" : fmt::format("audit.log.{}", i);
    if (const fs::path log = sources.state / "coordinator" / name; fs::exists(log, error))
      files["state/" + name] = read_text(log);
  }
  for (const auto& [file, command] : kMachine)
    files[std::string(file)] =
        fmt::format("$ {}\n{}", command, sources.shell(std::string(command)));
  return files;
}

}  // namespace

std::string without_keys(std::string text, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets)
    for (std::size_t at = 0; (at = text.find(secret, at)) != std::string::npos;)
      text.replace(at, secret.size(), kRemoved);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && key_character(text[end]))
      ++end;
    if (end == i) {
      out += text[i++];
      continue;
    }
    // "key:WORD" and "key=WORD" are one word of these characters, too; and a path is no key.
    std::string_view word(text.data() + i, end - i);
    const std::size_t from = word.size() < kKeyCharacters ? 0 : word.size() - kKeyCharacters;
    const bool begins = from == 0 || word[from - 1] == ':' || word[from - 1] == '=';
    if (begins && is_key(word.substr(from))) {
      out += word.substr(0, from);
      out += kRemoved;
    } else {
      out += word;
    }
    i = end;
  }
  return out;
}

Exit collect_bundle(const SupportBundle& bundle, const BundleSources& sources, bool json,
                    std::ostream& out, std::ostream& err) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(sources.now.time_since_epoch()).count();
  const std::string name =
      fmt::format("heddle-support-{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::time_t{seconds}));
  const fs::path file = bundle.file.empty() ? fs::path(name + ".tar.gz") : bundle.file;
  const std::vector<std::string> secrets = secrets_in(sources.configuration / "keys");
  std::string missing;
  std::map<std::string, std::string> files;
  for (auto& [path, text] : collect(sources, missing))
    files[fmt::format("{}/{}", name, path)] = without_keys(std::move(text), secrets);
  const auto archive = tar_gz(files, sources.now);
  if (!archive)
    return report_error(Exit::failed, archive.error().message, json, out, err);
  {
    // Nobody else's to read: it has addresses and names. Made empty first, as a mode cannot be
    // given with it.
    std::error_code error;
    if (fs::exists(file, error))
      return report_error(
          Exit::failed,
          fmt::format("{} is there already; --output names another file", file.string()), json, out,
          err);
    std::ofstream empty(file, std::ios::binary);
    empty.close();
    fs::permissions(file, fs::perms(0600), error);
    std::ofstream stream(file, std::ios::binary);
    stream.write(archive->data(), static_cast<std::streamsize>(archive->size()));
    stream.flush();
    if (!stream)
      return report_error(Exit::failed, fmt::format("{}: cannot be written", file.string()), json,
                          out, err);
  }
  if (json) {
    Json list = Json::array();
    for (const auto& [path, text] : files)
      list.push_back({{"file", path}, {"bytes", text.size()}});
    out << Json{{"file", file.string()},
                {"coordinator", missing.empty() ? Json("answered") : Json(missing)},
                {"files", std::move(list)}}
               .dump(2, ' ', false, Json::error_handler_t::replace)
        << "\n";
    return Exit::ok;
  }
  out << fmt::format(
      "{}: {}, {}\nIt has names, addresses and logs of this machine{}, and no secret key. Look "
      "through it before you send it:\n  tar -tzf {}\n",
      file.string(), counted(files.size(), "file"),
      human_bytes(static_cast<double>(archive->size())),
      missing.empty() ? " and of the cluster" : "", file.string());
  if (!missing.empty())
    out << "The coordinator did not answer: " << missing << "\n";
  return Exit::ok;
}

}  // namespace heddle
