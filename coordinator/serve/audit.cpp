#include "coordinator/serve/audit.h"

#include <algorithm>

#include "coordinator/serve/json.h"

namespace heddle {

namespace {

constexpr std::size_t kLongestWord = 200;
constexpr std::size_t kMostWords = 64;

std::string cut(const std::string& word) {
  return word.size() <= kLongestWord ? word : word.substr(0, kLongestWord) + "...";
}

}  // namespace

std::string audit_line(const AuditRecord& record) {
  Json arguments = Json::array();
  const std::size_t shown = std::min(record.arguments.size(), kMostWords);
  for (std::size_t i = 0; i < shown; ++i)
    arguments.push_back(cut(record.arguments[i]));
  if (shown < record.arguments.size())
    arguments.push_back(fmt::format("and {} more", record.arguments.size() - shown));
  return dump({{"wall", iso(record.wall)},
               {"key", cut(record.key)},
               {"role", to_string(record.role)},
               {"command", cut(record.command)},
               {"arguments", std::move(arguments)},
               {"outcome", cut(record.outcome)}});
}

}  // namespace heddle
