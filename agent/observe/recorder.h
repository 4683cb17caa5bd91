// Records what the kernel tells of this machine's RDMA, octet for octet, so that it can be told
// again in tests: the answers of RDMA netlink, the files of sysfs that were read, what drivers
// count, the connections that were seen. Nothing in the kernel is changed. For each look a folder:
//   0/netlink/QUERY.DEVICE   the messages that answered it (QUERY: a number of RdmaCommand)
//   0/netlink/announced      what the kernel announced before the look
//   0/sys/...                the files, below /sys/class/infiniband
//   0/ethtool/INTERFACE      the statistics of its driver, "VALUE NAME" a line
//   0/connections            of the kernel's connecting queue pairs, one a line
//   0/time                   boot time and time of day, nanoseconds
// One thread.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "agent/observe/driver_statistics.h"
#include "agent/observe/file_tree.h"
#include "agent/observe/rdma_channel.h"
#include "common/core/clock.h"
#include "common/core/result.h"

namespace heddle {

// The name under which the answers to a request are kept: "10.3".
std::string recorded_name(const RdmaRequest& request);

class Recorder {
 public:
  // What it records and hands on; all outlive it.
  Recorder(std::filesystem::path folder, RdmaChannel& channel, const FileTree& files,
           const DriverStatistics& statistics);

  // To observe by.
  RdmaChannel& channel() { return recording_channel_; }
  const FileTree& files() const { return recording_files_; }
  const DriverStatistics& statistics() const { return recording_statistics_; }

  // What follows belongs to the next look.
  Result<void> next_look(const Clock& clock, std::span<const QpConnection> connections);
  // What could not be written, if something could not.
  const Result<void>& written() const { return written_; }

 private:
  class Channel final : public RdmaChannel {
   public:
    Channel(Recorder& recorder, RdmaChannel& channel) : recorder_(recorder), channel_(channel) {}
    Result<std::vector<std::byte>> exchange(const RdmaRequest& request) override;
    Result<std::vector<std::byte>> announced() override;
    void let_go() override { channel_.let_go(); }

   private:
    Recorder& recorder_;
    RdmaChannel& channel_;
  };
  class Files final : public FileTree {
   public:
    Files(Recorder& recorder, const FileTree& files) : recorder_(recorder), files_(files) {}
    std::vector<std::string> list(const std::string& folder) const override;
    Result<std::string> read(const std::string& file) const override;

   private:
    Recorder& recorder_;
    const FileTree& files_;
  };
  class Statistics final : public DriverStatistics {
   public:
    Statistics(Recorder& recorder, const DriverStatistics& statistics)
        : recorder_(recorder), statistics_(statistics) {}
    Result<std::vector<NamedCount>> statistics(const std::string& interface) const override;

   private:
    Recorder& recorder_;
    const DriverStatistics& statistics_;
  };

  void write(const std::filesystem::path& file, std::span<const std::byte> content);

  std::filesystem::path folder_;
  std::filesystem::path look_;
  int looks_{};
  Result<void> written_;
  Channel recording_channel_;
  Files recording_files_;
  Statistics recording_statistics_;
};

}  // namespace heddle
