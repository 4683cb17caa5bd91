#include "coordinator/state_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "coordinator/decide/rollout_text.h"

namespace heddle {

namespace {

Error io_error(const std::filesystem::path& file, int error) {
  return {Errc::io, fmt::format("{}: {}", file.string(), std::strerror(error))};
}

// A new file takes the old one's place only when it is whole on the disk, so that a crash leaves
// one or the other.
Result<void> replace(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path fresh = file.string() + ".new";
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (fd < 0)
    return tl::unexpected(io_error(fresh, errno));
  std::size_t done = 0;
  int error = 0;
  while (done < text.size() && error == 0) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n >= 0)
      done += static_cast<std::size_t>(n);
    else if (errno != EINTR)
      error = errno;
  }
  if (error == 0 && ::fsync(fd) != 0)
    error = errno;
  ::close(fd);
  if (error == 0 && ::rename(fresh.c_str(), file.c_str()) != 0)
    error = errno;
  if (error != 0) {
    ::unlink(fresh.c_str());
    return tl::unexpected(io_error(file, error));
  }
  const int folder = ::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
  return {};
}

// Nothing if the file is not there.
Result<std::optional<std::string>> read(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    if (error)
      return tl::unexpected(io_error(file, error.value()));
    return std::optional<std::string>();
  }
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in.good() && !in.eof())
    return tl::unexpected(io_error(file, EIO));
  return std::optional<std::string>(std::move(text));
}

std::optional<WallTime> parse_wall(const std::string& text) {
  std::int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  return error == std::errc() && rest == end ? std::optional(WallTime(Duration(count)))
                                             : std::nullopt;
}

}  // namespace

Result<FileStateStore> FileStateStore::open(std::filesystem::path folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return tl::unexpected(io_error(folder, error.value()));
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return tl::unexpected(io_error(folder, errno));
  return FileStateStore(std::move(folder));
}

Result<std::uint64_t> FileStateStore::load_epoch() {
  const std::filesystem::path file = folder_ / "epoch";
  const auto text = read(file);
  if (!text)
    return tl::unexpected(text.error());
  if (!*text)
    return 0;
  std::uint64_t epoch = 0;
  const char* end = (*text)->data() + (*text)->size();
  const auto [rest, error] = std::from_chars((*text)->data(), end, epoch);
  if (error != std::errc() || rest == end || *rest != '\n')
    return fail(Errc::parse,
                fmt::format("{}:1: this is no epoch; remove the file to begin above the highest "
                            "epoch that any agent has seen",
                            file.string()));
  return epoch;
}

Result<void> FileStateStore::store_epoch(std::uint64_t epoch) {
  return replace(folder_ / "epoch", fmt::format("{}\n", epoch));
}

Result<OperatorState> FileStateStore::load_operator_state() {
  const std::filesystem::path file = folder_ / "operator";
  const auto text = read(file);
  if (!text)
    return tl::unexpected(text.error());
  OperatorState state;
  if (!*text)
    return state;
  std::istringstream lines(**text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream in(line);
    std::string kind;
    std::vector<std::string> names;
    in >> kind;
    for (std::string name; in >> name;)
      names.push_back(name);
    if (kind == "disabled-node" && names.size() == 1)
      state.disabled_nodes.insert(names[0]);
    else if (kind == "disabled-job" && !names.empty())
      state.disabled_jobs[names[0]] = {names.begin() + 1, names.end()};
    else if (const auto since =
                 kind == "drain" && names.size() == 3 ? parse_wall(names[2]) : std::nullopt)
      state.drains.push_back({.target = {.kind = names[0], .name = names[1]}, .since = *since});
    else if (kind == "job" && names.size() >= 2)
      state.jobs.push_back({.name = names[0], .hosts = {names.begin() + 1, names.end()}});
    else
      return fail(Errc::parse,
                  fmt::format("{}:{}: '{}' is not understood", file.string(), number, line));
  }
  return state;
}

Result<void> FileStateStore::store_operator_state(const OperatorState& state) {
  std::string text;
  for (const std::string& node : state.disabled_nodes)
    text += fmt::format("disabled-node {}\n", node);
  for (const auto& [job, hosts] : state.disabled_jobs) {
    text += "disabled-job " + job;
    for (const std::string& host : hosts)
      text += " " + host;
    text += "\n";
  }
  for (const JobDeclaration& job : state.jobs) {
    text += "job " + job.name;
    for (const std::string& host : job.hosts)
      text += " " + host;
    text += "\n";
  }
  for (const DrainOrder& drain : state.drains)
    text += fmt::format("drain {} {} {}\n", drain.target.kind, drain.target.name,
                        drain.since.time_since_epoch().count());
  return replace(folder_ / "operator", text);
}

Result<RolloutState> FileStateStore::load_rollout() {
  const std::filesystem::path file = folder_ / "rollout";
  const auto text = read(file);
  if (!text)
    return tl::unexpected(text.error());
  if (!*text)
    return RolloutState{};
  Result<RolloutState> state = read_rollout(**text);
  if (!state)
    return fail(Errc::parse, fmt::format("{}:{}", file.string(), state.error().message));
  return state;
}

Result<void> FileStateStore::store_rollout(const RolloutState& state) {
  return replace(folder_ / "rollout", write_rollout(state));
}

}  // namespace heddle
