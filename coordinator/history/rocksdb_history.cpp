#include "coordinator/history/rocksdb_history.h"

#include <fmt/format.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <condition_variable>
#include <cstdarg>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "coordinator/history/record_codec.h"

namespace heddle {

namespace {

constexpr std::size_t kBatch = 512;
// About what a plan that waits to be encoded takes.
std::size_t size_of(const PlanRecord& plan) {
  std::size_t size = 256 + 256 * plan.moves.size();
  for (const auto& [node, part] : plan.plan.nodes)
    size += 128 + 256 * part.pins.size();
  return size + plan.reason.size();
}

constexpr Duration kSweep = std::chrono::minutes(10);

// RocksDB's own log is a file beside the database, and Debian's build aborts when that file cannot
// be written because the disk is full. What we need to know comes with each call's status.
class NoLog final : public rocksdb::Logger {
 public:
  using Logger::Logv;
  void Logv(const char*, va_list) override {}
};

Error to_error(const rocksdb::Status& status) {
  return {status.IsNotFound() ? Errc::not_found : Errc::io, status.ToString()};
}

}  // namespace

// Everything but the queue belongs to the thread.
class RocksDbHistory::Writer {
 public:
  Writer(RocksDbOptions options, Post post) : options_(std::move(options)), post_(std::move(post)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Writer() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  struct Put {
    std::string key;
    std::string value;
    std::shared_ptr<const PlanRecord> plan{};  // the value, if it is still to be encoded
    std::size_t size() const { return key.size() + value.size() + (plan ? size_of(*plan) : 0); }
  };
  using Query = std::function<void(rocksdb::DB*)>;  // nullptr: there is no database now

  void put(Put put) {
    {
      const std::lock_guard lock(mutex_);
      if (queued_bytes_ + put.size() > options_.queue_bytes) {
        ++dropped_;
        overflowed_ = true;
        return;
      }
      queued_bytes_ += put.size();
      puts_.push_back(std::move(put));
    }
    wake_.notify_one();
  }

  void query(Query query) {
    {
      const std::lock_guard lock(mutex_);
      queries_.push_back(std::move(query));
    }
    wake_.notify_one();
  }

  // An answer that is handed to the event loop.
  template <class T>
  void answer(const Answer<T>& to, Result<T> value) const {
    post_([to, value = std::move(value)]() mutable { to(std::move(value)); });
  }

  HistoryStatus status() const {
    const std::lock_guard lock(mutex_);
    return {.ok = open_ && !overflowed_ && !short_of_room_,
            .reason = !open_           ? reason_
                      : short_of_room_ ? fmt::format("No space left on device: less than {} MB",
                                                     options_.reserve_bytes >> 20)
                      : overflowed_    ? "the disk is too slow: records were dropped"
                                       : "",
            .written = written_,
            .dropped = dropped_};
  }

  void drain() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return puts_.empty() && queries_.empty() && !busy_; });
  }

 private:
  void run() {
    open();
    for (;;) {
      std::deque<Query> queries;
      std::vector<Put> puts;
      {
        std::unique_lock lock(mutex_);
        busy_ = false;
        idle_.notify_all();
        const auto due = [this] { return stopping_ || !puts_.empty() || !queries_.empty(); };
        wake_.wait_for(lock, db_ ? kSweep : options_.retry, due);
        if (stopping_ && puts_.empty() && queries_.empty())
          break;
        busy_ = true;
        queries.swap(queries_);
        while (!puts_.empty() && puts.size() < kBatch) {
          queued_bytes_ -= puts_.front().size();
          puts.push_back(std::move(puts_.front()));
          puts_.pop_front();
        }
      }
      if (!db_ && std::chrono::steady_clock::now() >= retry_at_)
        open();
      write(puts);
      for (const Query& query : queries)
        query(db_.get());
      sweep();
    }
    if (db_) {
      // So that the next start need not replay the log.
      (void)db_->Flush(rocksdb::FlushOptions());
      (void)db_->Close();
    }
  }

  void open() {
    rocksdb::Options settings;
    settings.create_if_missing = true;
    settings.compression = rocksdb::kLZ4Compression;
    settings.write_buffer_size = 16U << 20;
    settings.max_total_wal_size = 64U << 20;
    settings.info_log = std::make_shared<NoLog>();
    settings.max_background_jobs = 2;
    std::error_code made;
    std::filesystem::create_directories(options_.folder, made);
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(settings, options_.folder.string(), &db);
    const std::lock_guard lock(mutex_);
    if (!status.ok()) {
      fail(status.ToString());
      return;
    }
    db_.reset(db);
    open_ = true;
  }

  // With the lock held.
  void fail(std::string reason) {
    reason_ = std::move(reason);
    open_ = false;
    retry_at_ = std::chrono::steady_clock::now() + options_.retry;
  }

  void write(const std::vector<Put>& puts) {
    if (puts.empty())
      return;
    rocksdb::Status status = rocksdb::Status::IOError("the database is not open");
    if (db_ && !has_room()) {
      const std::lock_guard lock(mutex_);
      dropped_ += puts.size();
      return;
    }
    if (db_) {
      rocksdb::WriteBatch batch;
      for (const Put& put : puts)
        batch.Put(put.key, put.plan ? encode_plan(*put.plan) : put.value);
      // Not synced: a machine that loses power loses a few seconds of history, and no more.
      status = db_->Write(rocksdb::WriteOptions(), &batch);
    }
    std::unique_ptr<rocksdb::DB> failed;
    {
      const std::lock_guard lock(mutex_);
      if (status.ok()) {
        written_ += puts.size();
        overflowed_ = overflowed_ && !puts_.empty();
        return;
      }
      dropped_ += puts.size();
      if (db_) {
        fail(status.ToString());
        failed = std::move(db_);
      }
    }
    if (failed)
      (void)failed->Close();
  }

  // A database that never sees a full disk never has to recover from one.
  bool has_room() {
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(options_.folder, error);
    const std::lock_guard lock(mutex_);
    short_of_room_ = !error && space.available < options_.reserve_bytes;
    return !short_of_room_;
  }

  void sweep() {
    const auto now = std::chrono::steady_clock::now();
    if (!db_ || now < sweep_at_)
      return;
    sweep_at_ = now + kSweep;
    const WallTime cutoff{Duration(std::chrono::system_clock::now().time_since_epoch()) -
                          options_.retention};
    // A plan's time leads to its version. The latest plan stays however old it is: it is what is
    // installed.
    std::vector<Put> old;
    std::unique_ptr<rocksdb::Iterator> times(db_->NewIterator(rocksdb::ReadOptions()));
    times->Seek("t");
    const auto at_time = [&] { return times->Valid() && times->key().starts_with("t"); };
    for (; at_time() && wall_of_key(times->key().ToStringView()) < cutoff; times->Next())
      old.push_back({.key = times->key().ToString(), .value = times->value().ToString()});
    if (!at_time() && !old.empty())
      old.pop_back();
    rocksdb::WriteBatch batch;
    for (const Put& plan : old) {
      batch.Delete(plan.key);
      batch.Delete(plan.value);
    }
    batch.DeleteRange(report_key({}, {}), report_key(cutoff, {}));
    batch.DeleteRange(link_key({}, {}), link_key(cutoff, {}));
    batch.DeleteRange(event_key({}, 0), event_key(cutoff, 0));
    batch.DeleteRange(decision_key({}), decision_key(cutoff));
    // What cannot be deleted now is deleted by the next sweep.
    (void)db_->Write(rocksdb::WriteOptions(), &batch);
  }

  const RocksDbOptions options_;
  const Post post_;
  std::unique_ptr<rocksdb::DB> db_;
  std::chrono::steady_clock::time_point retry_at_;
  std::chrono::steady_clock::time_point sweep_at_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<Put> puts_;
  std::deque<Query> queries_;
  std::size_t queued_bytes_{};
  std::uint64_t written_{};
  std::uint64_t dropped_{};
  std::string reason_{"the database is being opened"};
  bool open_{};
  bool short_of_room_{};
  bool overflowed_{};  // since the queue was last written to its end
  bool busy_{true};
  bool stopping_{};
  std::thread thread_;
};

RocksDbHistory::RocksDbHistory(RocksDbOptions options, Post post)
    : writer_(std::make_unique<Writer>(std::move(options), std::move(post))) {}

RocksDbHistory::~RocksDbHistory() = default;

Result<PlanRecord> RocksDbHistory::last_plan(Duration patience) {
  const auto promise = std::make_shared<std::promise<Result<PlanRecord>>>();
  std::future<Result<PlanRecord>> future = promise->get_future();
  writer_->query([promise](rocksdb::DB* db) {
    if (db == nullptr) {
      promise->set_value(heddle::fail(Errc::io, "the history is not open"));
      return;
    }
    std::unique_ptr<rocksdb::Iterator> plans(db->NewIterator(rocksdb::ReadOptions()));
    plans->SeekForPrev("q");
    if (!plans->Valid() || !plans->key().starts_with("p"))
      promise->set_value(heddle::fail(Errc::not_found, "the history has no plan"));
    else
      promise->set_value(decode_plan(plans->value().ToStringView()));
  });
  if (future.wait_for(patience) != std::future_status::ready)
    return heddle::fail(Errc::timeout, "the history's disk does not answer");
  return future.get();
}

void RocksDbHistory::keep(WallTime wall, const std::string& node, const Report& report) {
  writer_->put({.key = report_key(wall, node), .value = encode_message(node, report)});
}

void RocksDbHistory::keep(WallTime wall, const std::string& node, const LinkChange& change) {
  writer_->put({.key = link_key(wall, node), .value = encode_message(node, change)});
}

// A large plan takes milliseconds to encode, which the event loop has better use for.
void RocksDbHistory::keep(std::shared_ptr<const PlanRecord> plan) {
  const std::string key = plan_key(plan->plan.version);
  writer_->put({.key = plan_time_key(plan->wall), .value = key});
  writer_->put({.key = key, .value = {}, .plan = std::move(plan)});
}

void RocksDbHistory::keep(const EventRecord& event) {
  writer_->put({.key = event_key(event.wall, ++events_), .value = event.text});
}

void RocksDbHistory::keep(const DecisionRecord& decision) {
  writer_->put({.key = decision_key(decision.wall), .value = encode_decision(decision)});
}

void RocksDbHistory::read_plan(PlanVersion version, Answer<PlanRecord> answer) {
  writer_->query([writer = writer_.get(), version, answer = std::move(answer)](rocksdb::DB* db) {
    if (db == nullptr) {
      writer->answer<PlanRecord>(answer, heddle::fail(Errc::io, "the history is not open"));
      return;
    }
    std::string bytes;
    const rocksdb::Status status = db->Get(rocksdb::ReadOptions(), plan_key(version), &bytes);
    writer->answer<PlanRecord>(answer,
                               status.ok() ? decode_plan(bytes) : tl::unexpected(to_error(status)));
  });
}

namespace {

template <class T, class Take>
Result<std::vector<T>> read_range(rocksdb::DB* db, const std::string& from, const std::string& to,
                                  Take take) {
  if (db == nullptr)
    return fail(Errc::io, "the history is not open");
  std::vector<T> values;
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  for (it->Seek(from); it->Valid() && it->key().compare(to) < 0; it->Next())
    take(it->key().ToStringView(), it->value().ToStringView(), values);
  if (!it->status().ok())
    return tl::unexpected(to_error(it->status()));
  return values;
}

}  // namespace

void RocksDbHistory::read_events(WallTime from, WallTime to,
                                 Answer<std::vector<EventRecord>> answer) {
  writer_->query([writer = writer_.get(), from, to, answer = std::move(answer)](rocksdb::DB* db) {
    writer->answer<std::vector<EventRecord>>(
        answer, read_range<EventRecord>(db, event_key(from, 0), event_key(to, 0),
                                        [](auto key, auto value, auto& events) {
                                          events.push_back({wall_of_key(key), std::string(value)});
                                        }));
  });
}

void RocksDbHistory::read_decisions(WallTime after, std::size_t limit,
                                    Answer<std::vector<DecisionRecord>> answer) {
  writer_->query(
      [writer = writer_.get(), after, limit, answer = std::move(answer)](rocksdb::DB* db) {
        const auto read = [&]() -> Result<std::vector<DecisionRecord>> {
          if (db == nullptr)
            return heddle::fail(Errc::io, "the history is not open");
          std::vector<DecisionRecord> decisions;
          const std::string oldest = decision_key(after);
          std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
          for (it->SeekForPrev("e"); it->Valid() && it->key().compare(oldest) > 0 &&
                                     it->key().starts_with("d") && decisions.size() < limit;
               it->Prev())
            // A record of a version that is no longer understood is passed over.
            if (auto decision = decode_decision(it->value().ToStringView()))
              decisions.push_back(std::move(*decision));
          if (!it->status().ok())
            return tl::unexpected(to_error(it->status()));
          std::ranges::reverse(decisions);
          return decisions;
        };
        writer->answer<std::vector<DecisionRecord>>(answer, read());
      });
}

void RocksDbHistory::read_reports(WallTime from, WallTime to,
                                  Answer<std::vector<Envelope>> answer) {
  writer_->query([writer = writer_.get(), from, to, answer = std::move(answer)](rocksdb::DB* db) {
    writer->answer<std::vector<Envelope>>(
        answer, read_range<Envelope>(db, report_key(from, {}), report_key(to, {}),
                                     [](auto, auto value, auto& reports) {
                                       // A record of a version that is no longer understood is
                                       // passed over.
                                       if (auto report = decode_message(value))
                                         reports.push_back(std::move(*report));
                                     }));
  });
}

HistoryStatus RocksDbHistory::status() const {
  return writer_->status();
}

void RocksDbHistory::drain() {
  writer_->drain();
}

}  // namespace heddle
