// The history in RocksDB. A writer thread owns the database; the event loop hands it records
// through a queue that is bounded in bytes, and what does not fit is dropped and counted. A
// database that fails is closed and opened again from time to time.
//
// Thread: every public member on the event loop's. Lifetime: within that of the executor behind
// `post`.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "coordinator/history/history.h"

namespace heddle {

struct RocksDbOptions {
  std::filesystem::path folder;
  Duration retention{std::chrono::hours(24 * 7)};
  std::size_t queue_bytes{64U << 20};
  std::uint64_t reserve_bytes{64U << 20};   // of the disk, left to others
  Duration retry{std::chrono::seconds(5)};  // between attempts to open what failed
};

class RocksDbHistory final : public History {
 public:
  // Runs a function on the event loop's thread, soon. It is called from the writer thread.
  using Post = std::function<void(std::function<void()>)>;

  // Opening happens on the writer thread; a folder that cannot be opened shows in status().
  RocksDbHistory(RocksDbOptions options, Post post);
  // Writes what is queued, if the disk takes it, and closes.
  ~RocksDbHistory() override;

  // The latest plan, for a coordinator that starts again. Waits, so only to be called before the
  // event loop runs; Errc::timeout if the disk takes longer than `patience`, Errc::not_found if
  // there is none.
  Result<PlanRecord> last_plan(Duration patience);

  void keep(WallTime wall, const std::string& node, const Report& report) override;
  void keep(WallTime wall, const std::string& node, const LinkChange& change) override;
  void keep(std::shared_ptr<const PlanRecord> plan) override;
  void keep(const EventRecord& event) override;
  void keep(const DecisionRecord& decision) override;
  void read_plan(PlanVersion version, Answer<PlanRecord> answer) override;
  void read_events(WallTime from, WallTime to, Answer<std::vector<EventRecord>> answer) override;
  void read_decisions(WallTime after, std::size_t limit,
                      Answer<std::vector<DecisionRecord>> answer) override;
  // What all nodes reported in a span of time, oldest first, for looking back.
  void read_reports(WallTime from, WallTime to, Answer<std::vector<Envelope>> answer);
  HistoryStatus status() const override;

  // Waits until all that was handed in so far is written or dropped. For tests and for a clean end.
  void drain();

 private:
  class Writer;
  std::unique_ptr<Writer> writer_;
  std::uint64_t events_{};
};

}  // namespace heddle
