#include "coordinator/cli/offline.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <system_error>

#include "common/transport/keys.h"
#include "coordinator/cli/human.h"
#include "coordinator/import/fabric_file.h"
#include "coordinator/import/fields.h"

namespace heddle {
namespace {

using Json = nlohmann::json;

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json to_json(const std::filesystem::path& file, const Mistakes& mistakes) {
  Json out = Json::array();
  for (const Mistake& mistake : mistakes)
    out.push_back({{"file", file.string()}, {"line", mistake.line}, {"message", mistake.message}});
  return out;
}

Exit report_mistakes(const std::filesystem::path& file, const Mistakes& mistakes, bool json,
                     std::ostream& out, std::ostream& err) {
  if (json)
    out << dump({{"valid", false}, {"mistakes", to_json(file, mistakes)}});
  else
    out << describe(file.string(), mistakes);
  err << fmt::format("heddle: {} in {}\n", counted(mistakes.size(), "mistake"), file.string());
  return Exit::failed;
}

}  // namespace

Exit report_error(Exit exit, std::string_view message, bool json, std::ostream& out,
                  std::ostream& err) {
  err << "heddle: " << message << "\n";
  if (json)
    out << dump(
        {{"error", message.substr(0, message.find('\n'))}, {"exit_code", static_cast<int>(exit)}});
  return exit;
}

Exit make_keys(const Keygen& keygen, bool json, std::ostream& out, std::ostream& err) {
  if (const std::string fault = name_fault(keygen.name); !fault.empty())
    return report_error(Exit::usage, fault, json, out, err);
  std::error_code code;
  std::filesystem::create_directories(keygen.folder, code);
  if (code)
    return report_error(
        Exit::failed,
        fmt::format("cannot make the folder {}: {}", keygen.folder.string(), code.message()), json,
        out, err);
  const auto keys = generate_keys();
  if (!keys)
    return report_error(Exit::failed, keys.error().message, json, out, err);
  const std::filesystem::path file = keygen.folder / keygen.name;
  if (const auto written = write_keys(*keys, file); !written)
    return report_error(
        Exit::failed,
        written.error().message +
            (written.error().code == Errc::duplicate
                 ? "\nA key is never overwritten: take another name, or move it away."
                 : ""),
        json, out, err);
  if (json)
    out << dump({{"name", keygen.name},
                 {"secret_key_file", file.string()},
                 {"public_key_file", file.string() + ".pub"},
                 {"public_key", keys->public_key}});
  else
    out << fmt::format(
        "secret key  {0}      for {1} alone\n"
        "public key  {0}.pub  for those who must know {1}: where the coordinator runs, "
        "'heddle key add', or,\n"
        "            if it is the coordinator's, every agent and command line\n",
        file.string(), keygen.name);
  return Exit::ok;
}

Exit check_fabric(const FabricCheck& check, bool json, std::ostream& out, std::ostream& err) {
  const auto topology = load_fabric(check.fabric.string());
  if (!topology)
    return report_mistakes(check.fabric, topology.error(), json, out, err);
  std::size_t job_count = 0;
  if (check.jobs) {
    const auto jobs = load_jobs(check.jobs->string(), *topology);
    if (!jobs)
      return report_mistakes(*check.jobs, jobs.error(), json, out, err);
    job_count = jobs->size();
  }
  if (json) {
    Json summary = {{"valid", true},
                    {"mistakes", Json::array()},
                    {"fabric", topology->name()},
                    {"leaves", topology->leaves().size()},
                    {"spines", topology->spines().size()},
                    {"hosts", topology->hosts().size()},
                    {"nics", topology->nics().size()},
                    {"cables", topology->cables().size()}};
    if (check.jobs)
      summary["jobs"] = job_count;
    out << dump(summary);
    return Exit::ok;
  }
  out << fmt::format("fabric {}: {} leaves, {} spines, {} hosts, {} NICs, {} cables; no mistakes\n",
                     topology->name(), topology->leaves().size(), topology->spines().size(),
                     topology->hosts().size(), topology->nics().size(), topology->cables().size());
  if (check.jobs)
    out << fmt::format("{}; no mistakes\n", counted(job_count, "job"));
  return Exit::ok;
}

}  // namespace heddle
