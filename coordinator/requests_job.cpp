// Jobs: those that operators declare.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "coordinator/coordinator.h"
#include "coordinator/requests.h"

namespace heddle {

namespace {

// The names that separate well in files and on screens, as in fabric files.
bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
}

}  // namespace

std::vector<JobDeclaration> Coordinator::declared() const {
  std::vector<JobDeclaration> all = file_jobs_;
  all.insert(all.end(), operators_.jobs.begin(), operators_.jobs.end());
  return all;
}

Reply Coordinator::job_request(const Request& request) {
  const std::vector<std::string>& words = request.arguments;
  const auto by_name = [&](const JobDeclaration& job) { return job.name == words[0]; };
  if (request.command == "job list" && words.empty())
    return good(declarations_json(declared()));
  if (words.empty())
    return bad(AnswerCode::usage, "job declare NAME HOST..., job list or job remove NAME");
  const bool in_file = std::ranges::any_of(file_jobs_, by_name);
  OperatorState next = operators_;
  if (request.command == "job declare") {
    if (words.size() < 3)
      return bad(AnswerCode::usage, "a job has a name and at least two hosts");
    if (in_file)
      return bad(AnswerCode::refused,
                 fmt::format("job '{}' is declared in the job file", words[0]));
    if (!is_name(words[0]))
      return bad(
          AnswerCode::usage,
          fmt::format("'{}' is no name: 1 to 64 of letters, digits, '.', '_' and '-'", words[0]));
    JobDeclaration job{.name = words[0], .hosts = {words.begin() + 1, words.end()}};
    for (const std::string& host : job.hosts) {
      if (!topology_.find_host(host))
        return bad(AnswerCode::not_found, fmt::format("the fabric has no host '{}'", host));
      if (std::ranges::count(job.hosts, host) > 1)
        return bad(AnswerCode::usage, fmt::format("host '{}' is named twice", host));
    }
    std::erase_if(next.jobs, by_name);
    next.jobs.push_back(std::move(job));
  } else if (request.command == "job remove" && words.size() == 1) {
    if (in_file)
      return bad(AnswerCode::refused,
                 fmt::format("job '{}' is declared in the job file; remove it there "
                             "and restart the coordinator",
                             words[0]));
    if (std::erase_if(next.jobs, by_name) == 0)
      return bad(AnswerCode::not_found, fmt::format("no job '{}' is declared", words[0]));
  } else {
    return bad(AnswerCode::usage, "job declare NAME HOST..., job list or job remove NAME");
  }
  std::swap(operators_, next);
  if (const auto stored = store_operators(); !stored) {
    std::swap(operators_, next);
    return bad(stored.error());
  }
  return good(declarations_json(declared()));
}

}  // namespace heddle
