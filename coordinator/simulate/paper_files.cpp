#include "coordinator/simulate/paper_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

namespace heddle::sim {
namespace {

constexpr std::uint64_t kFirstServer = kPaperLeaves + kPaperSpines;
constexpr std::uint64_t kServers = std::uint64_t{kPaperLeaves} * kPaperNicsPerLeaf;
constexpr std::uint64_t kLongestNs = 1'000'000'000'000'000;  // eleven days
constexpr std::uint64_t kMostBytes = 1'000'000'000'000'000;

struct Line {
  NicId source;
  NicId destination;
  std::uint64_t start_ns{};
  std::uint64_t bytes{};
  std::uint64_t compute_ns{};
  std::uint64_t ring{};
};

std::optional<std::array<std::uint64_t, 8>> numbers(std::string_view line) {
  std::array<std::uint64_t, 8> values{};
  std::size_t count = 0;
  while (!line.empty()) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos)
      break;
    line.remove_prefix(begin);
    const std::string_view word = line.substr(0, line.find_first_of(" \t\r"));
    line.remove_prefix(word.size());
    if (count == values.size())
      return std::nullopt;
    const auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), values[count++]);
    if (error != std::errc{} || end != word.data() + word.size())
      return std::nullopt;
  }
  return count == values.size() ? std::optional(values) : std::nullopt;
}

// The fault of a line, or empty.
std::string read_line(std::string_view text, Line& line) {
  const auto values = numbers(text);
  if (!values)
    return "a flow has eight columns, all of them whole numbers: src dst src_tor dst_tor "
           "start_time flow_size "
           "compute_time stage_index";
  const auto [source, destination, source_leaf, destination_leaf, start, bytes, compute, ring] =
      *values;
  for (const auto& [server, leaf] :
       {std::pair(source, source_leaf), std::pair(destination, destination_leaf)}) {
    if (server < kFirstServer || server >= kFirstServer + kServers)
      return fmt::format("{} is no server: those are {} to {}", server, kFirstServer,
                         kFirstServer + kServers - 1);
    if ((server - kFirstServer) / kPaperNicsPerLeaf != leaf)
      return fmt::format("server {} is on leaf {}, not {}", server,
                         (server - kFirstServer) / kPaperNicsPerLeaf, leaf);
  }
  if (source == destination)
    return fmt::format("server {} sends to itself", source);
  if (bytes == 0 || bytes > kMostBytes)
    return fmt::format("a flow of {} bytes", bytes);
  if (start > kLongestNs || compute > kLongestNs)
    return "a time above eleven days";
  line = {.source = {static_cast<std::uint32_t>(source - kFirstServer)},
          .destination = {static_cast<std::uint32_t>(destination - kFirstServer)},
          .start_ns = start,
          .bytes = bytes,
          .compute_ns = compute,
          .ring = ring};
  return {};
}

// A ring is closed if everybody in it receives from exactly one and sends to exactly one, in one
// circle.
bool closed(const std::vector<Line>& ring) {
  std::map<NicId, NicId> next;
  for (const Line& line : ring)
    if (!next.emplace(line.source, line.destination).second)
      return false;
  NicId at = ring.front().source;
  for (std::size_t i = 0; i < ring.size(); ++i) {
    const auto it = next.find(at);
    if (it == next.end())
      return false;
    at = it->second;
    if (at == ring.front().source)
      return i + 1 == ring.size();
  }
  return false;
}

}  // namespace

Result<SimJob> parse_paper_job(std::string_view text, const std::string& name) {
  std::map<std::uint64_t, std::vector<Line>> rings;
  std::optional<Line> first;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (row.find_first_not_of(" \t\r") == std::string_view::npos || row.front() == '#')
      continue;
    Line line;
    if (std::string fault = read_line(row, line); !fault.empty())
      return fail(Errc::parse, fmt::format("{}:{}: {}", name, number, fault));
    if (!first)
      first = line;
    if (line.start_ns != first->start_ns || line.compute_ns != first->compute_ns ||
        line.bytes != first->bytes)
      return fail(
          Errc::parse,
          fmt::format("{}:{}: start, size and compute time differ from the job's first line", name,
                      number));
    rings[line.ring].push_back(line);
  }
  if (!first)
    return fail(Errc::parse, fmt::format("{}: no flow in it", name));

  SimJob job{.name = name, .start = Duration(first->start_ns)};
  Step step{.compute = Duration(first->compute_ns)};
  for (const auto& [ring, lines] : rings) {
    if (!closed(lines))
      return fail(Errc::parse,
                  fmt::format("{}: the flows of ring {} do not make one circle", name, ring));
    Round round{.repeat = 2 * (static_cast<std::uint32_t>(lines.size()) - 1)};
    for (const Line& line : lines) {
      round.transfers.push_back(
          {static_cast<std::uint32_t>(job.flows.size()), static_cast<double>(line.bytes)});
      job.flows.push_back({line.source, line.destination});
    }
    step.groups.push_back({.rounds = {std::move(round)}});
  }
  job.iteration.push_back(std::move(step));
  return job;
}

Result<Workload> load_paper_jobs(const std::string& folder) {
  std::map<std::uint64_t, std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (!file.starts_with("job_") || !file.ends_with(".txt"))
      continue;
    std::uint64_t number{};
    const auto parsed = std::from_chars(file.data() + 4, file.data() + file.size(), number);
    if (parsed.ec != std::errc{} || *parsed.ptr != '-')
      return fail(Errc::parse, fmt::format("{}: job files are named job_<number>-<model>.txt",
                                           it->path().string()));
    if (!files.emplace(number, it->path()).second)
      return fail(Errc::duplicate, fmt::format("{}: a second job {}", it->path().string(), number));
  }
  if (error)
    return fail(Errc::not_found, fmt::format("{}: {}", folder, error.message()));
  if (files.empty())
    return fail(Errc::not_found,
                fmt::format("{}: no job_<number>-<model>.txt in this folder", folder));

  Workload workload{.name = std::filesystem::path(folder).lexically_normal().string()};
  while (workload.name.size() > 1 && workload.name.ends_with('/'))
    workload.name.pop_back();
  workload.name = std::filesystem::path(workload.name).filename().string();
  for (const auto& [number, path] : files) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    if (!file)
      return fail(Errc::io, fmt::format("{}: cannot be read", path.string()));
    Result<SimJob> job = parse_paper_job(text.str(), path.stem().string());
    if (!job)
      return fail(job.error().code, fmt::format("{}: {}", folder, job.error().message));
    workload.jobs.push_back(*std::move(job));
  }
  return workload;
}

std::string write_paper_job(const SimJob& job) {
  std::string text = "#src dst src_tor dst_tor start_time flow_size compute_time stage_index\n";
  const auto leaf = [](NicId nic) { return nic.value / kPaperNicsPerLeaf; };
  for (const Step& step : job.iteration) {
    for (std::size_t ring = 0; ring < step.groups.size(); ++ring) {
      for (const Transfer& transfer : step.groups[ring].rounds.front().transfers) {
        const JobFlow& flow = job.flows[transfer.flow];
        text += fmt::format("{} {} {} {} {} {:.0f} {} {}\n", flow.source.value + kFirstServer,
                            flow.destination.value + kFirstServer, leaf(flow.source),
                            leaf(flow.destination), job.start.count(), transfer.bytes,
                            step.compute.count(), ring);
      }
    }
  }
  return text;
}

}  // namespace heddle::sim
