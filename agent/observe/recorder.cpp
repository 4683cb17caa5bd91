#include "agent/observe/recorder.h"

#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <utility>

namespace heddle {
namespace {

// By the layout of a netlink header and of the one attribute that names the device.
constexpr std::size_t kType = 4;
constexpr std::size_t kDevice = 20;
constexpr std::uint16_t kCommand = 0x3FF;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

std::string recorded_name(const RdmaRequest& request) {
  std::uint16_t type = 0;
  std::memcpy(&type, request.data() + kType, sizeof(type));
  std::string name = std::to_string(type & kCommand);
  if (request.size() >= kDevice + sizeof(std::uint32_t)) {
    std::uint32_t device = 0;
    std::memcpy(&device, request.data() + kDevice, sizeof(device));
    name += fmt::format(".{}", device);
  }
  return name;
}

Recorder::Recorder(std::filesystem::path folder, RdmaChannel& channel, const FileTree& files,
                   const DriverStatistics& statistics)
    : folder_(std::move(folder)),
      recording_channel_(*this, channel),
      recording_files_(*this, files),
      recording_statistics_(*this, statistics) {}

Result<void> Recorder::next_look(const Clock& clock, std::span<const QpConnection> connections) {
  look_ = folder_ / std::to_string(looks_++);
  write("time", bytes_of(fmt::format("{} {}\n", clock.now().time_since_epoch().count(),
                                     clock.wall().time_since_epoch().count())));
  std::string lines;
  for (const QpConnection& c : connections) {
    lines += fmt::format("{} {} {} {} {} {} {} {}\n", c.device, c.qpn, c.remote_qpn,
                         to_string(c.destination), c.flow_label, c.port, c.gid_index,
                         c.when.time_since_epoch().count());
  }
  write("connections", bytes_of(lines));
  return written_;
}

void Recorder::write(const std::filesystem::path& file, std::span<const std::byte> content) {
  const std::filesystem::path path = look_ / file;
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(content.data()),
            static_cast<std::streamsize>(content.size()));
  if (!out.flush() && written_)
    written_ = fail(Errc::io, fmt::format("{} cannot be written", path.string()));
}

Result<std::vector<std::byte>> Recorder::Channel::exchange(const RdmaRequest& request) {
  Result<std::vector<std::byte>> messages = channel_.exchange(request);
  if (messages)
    recorder_.write(std::filesystem::path("netlink") / recorded_name(request), *messages);
  return messages;
}

Result<std::vector<std::byte>> Recorder::Channel::announced() {
  Result<std::vector<std::byte>> messages = channel_.announced();
  if (messages && !messages->empty())
    recorder_.write("netlink/announced", *messages);
  return messages;
}

std::vector<std::string> Recorder::Files::list(const std::string& folder) const {
  return files_.list(folder);
}

Result<std::string> Recorder::Files::read(const std::string& file) const {
  Result<std::string> text = files_.read(file);
  if (text)
    recorder_.write(std::filesystem::path("sys") / file, bytes_of(*text + "\n"));
  return text;
}

Result<std::vector<NamedCount>> Recorder::Statistics::statistics(
    const std::string& interface) const {
  Result<std::vector<NamedCount>> counts = statistics_.statistics(interface);
  if (counts) {
    std::string lines;
    for (const NamedCount& count : *counts)
      lines += fmt::format("{} {}\n", count.value, count.name);
    recorder_.write(std::filesystem::path("ethtool") / interface, bytes_of(lines));
  }
  return counts;
}

}  // namespace heddle
