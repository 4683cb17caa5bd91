#include "agent/record_command.h"

#include <fmt/format.h>

#include <fstream>
#include <thread>
#include <vector>

#include "agent/observe/rdma_observer.h"
#include "agent/observe/recorder.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLookEvery = seconds{1};
// Often enough that the socket's buffer holds what comes in between.
constexpr auto kDrainEvery = milliseconds{50};

}  // namespace

ExitCode record_command(const std::filesystem::path& folder, seconds length,
                        const RecordParts& parts) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return explain({Errc::io, fmt::format("{}: {}", folder.string(), error.message())});
  if (std::filesystem::exists(folder / "0", error))
    return explain({Errc::duplicate, fmt::format("{} holds a recording already", folder.string())});

  std::size_t samples = 0;
  std::ofstream sampled(folder / "psample", std::ios::binary);
  sampled << std::unitbuf;  // whoever has enough may end it at any moment
  parts.record_samples([&](std::span<const std::byte> datagram) {
    ++samples;
    sampled.write(reinterpret_cast<const char*>(datagram.data()),
                  static_cast<std::streamsize>(datagram.size()));
  });
  for (const SourceCapability& able : {parts.connections.probe()}) {
    if (!able.usable)
      fmt::print("connections are not seen: {}\n", able.reason);
  }

  Recorder recorder(folder, parts.rdma, parts.files, parts.statistics);
  RdmaObserver observer(recorder.channel(), recorder.files(), recorder.statistics(), parts.clock,
                        false);
  const Time begin = parts.clock.now();
  int looks = 0;
  std::size_t queue_pairs = 0;
  for (Time due = begin; due < begin + length; due += kLookEvery) {
    while (parts.clock.now() < due) {
      parts.drain_samples(parts.clock.now());
      std::this_thread::sleep_for(kDrainEvery);
    }
    const std::vector<QpConnection> connections = parts.connections.take();
    if (const Result<void> written = recorder.next_look(parts.clock, connections); !written)
      return explain(written.error());
    queue_pairs = observer.look(parts.clock.now(), connections).queue_pairs.size();
    ++looks;
  }
  parts.drain_samples(parts.clock.now());
  if (!recorder.written())
    return explain(recorder.written().error());
  if (!sampled)
    return explain({Errc::io, fmt::format("{} cannot be written", (folder / "psample").string())});
  const SourceCapability rdma = observer.capability();
  fmt::print("{} looks, {} connected queue pairs in the last, {} samples of packets: {}\n", looks,
             queue_pairs, samples, folder.string());
  if (!rdma.usable) {
    fmt::print("there was no RDMA to record: {}\n", rdma.reason);
    return samples == 0 ? kFailed : kOk;
  }
  return kOk;
}

}  // namespace heddle
