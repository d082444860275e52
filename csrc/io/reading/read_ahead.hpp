// Read-ahead: reads a growing list of requests of one file, in order and by itself, into a fixed
// space (staging), from which the caller takes them as they arrive.
//
// Requests are numbered from 0 in the order they are pushed. They are issued in that order, `depth`
// in flight, as soon as staging has room; they arrive in any order. A request keeps its place in
// staging until it is released. The queue is never drained: while the caller copies, plans or
// trains, a separate thread refills it. That thread sleeps in the kernel and owns the ring, so
// callers may come from any thread; the backends pread and buffered have `depth` such threads
// instead.
//
// Contract:
// - Staging must hold the largest request; room is given out as a ring, so a request may have to
//   wait until those before it are released.
// - push() keeps views: the arrays stay alive and unchanged until all their requests are released.
// - After a failed read nothing more is issued. What was in flight is taken first; take() then
//   gives out all that arrived and throws what went wrong once a request below its limit will
//   never arrive. So work that needs only earlier requests can still be finished.
// - With block sums, a request arrives only after its bytes were checked; one that differs is a
//   failed read with a FormatError.
// - Destruction takes every read in flight first: nothing writes to freed memory.
// - A child process (fork) has no threads: take() and push() refuse there.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "io/faults.hpp"
#include "io/reading/reader.hpp"

namespace foregather {

class FileWatch;
class Pages;
class RingCrew;

/// A request whose bytes are in staging.
struct Arrival {
  std::int64_t number;
  const std::byte* data;
};

class ReadAhead {
 public:
  /// Opens a regular file and starts reading threads; StorageError where the backend is refused.
  ReadAhead(const std::string& path, std::string name, Backend backend, int depth,
            std::int64_t staging_bytes, std::shared_ptr<Faults> faults = nullptr,
            std::shared_ptr<const BlockSums> sums = nullptr);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Queues requests; InputError if one is misaligned, outside the file or larger than staging.
  void push(std::span<const std::int64_t> offset, std::span<const std::int64_t> length);

  /// Appends what has arrived, waiting at most `patience` for `enough` requests (or a quarter of
  /// the depth, if that is less: waking up for each would cost more than copying it). Does not wait
  /// for more where staging is full. Throws where a request below `limit` failed.
  void take(std::vector<Arrival>& into, std::int64_t limit, std::int64_t enough,
            std::chrono::milliseconds patience);

  /// Gives the places of taken requests back.
  void release(std::span<const std::int64_t> numbers);

  /// StorageError where the file was changed, truncated or replaced since it was opened.
  void check_file() const;

  std::int64_t file_bytes() const;
  std::int64_t alignment() const { return alignment_; }
  Backend backend() const { return backend_; }
  /// Why staging is not pinned; empty where it is, or where the backend has no use for it.
  std::string pin_refusal() const;
  ReadCounters counters() const;

 private:
  friend class RingCrew;

  struct Piece {  ///< arrays of one push
    const std::int64_t* offset;
    const std::int64_t* length;
    std::size_t count;
  };
  struct Place {  ///< a request's room in staging
    std::int64_t begin;
    bool arrived, released;
  };
  struct Issue {  ///< a request that has room
    std::int64_t number, offset, length;
    std::byte* data;
  };

  void start_threads();
  void stop();
  void serve_pread();
  void serve_ring();
  bool reserve(Issue& next);                     // lock_ held
  void arrive(std::span<const Issue> finished);  // lock_ held
  void fail(std::exception_ptr reason);          // lock_ held
  void check_process() const;
  bool idle() const { return stopping_ || failed_; }

  const std::string name_;
  const Backend backend_;
  const int depth_;
  const int process_;
  std::int64_t alignment_ = 1;
  std::unique_ptr<Descriptor> file_;
  std::unique_ptr<FileWatch> watch_;
  std::unique_ptr<Pages> staging_;
  std::shared_ptr<Faults> faults_;
  std::shared_ptr<const BlockSums> sums_;

  mutable std::mutex lock_;       ///< guards everything below
  std::condition_variable work_;  ///< there may be something to issue, or an end
  std::condition_variable news_;  ///< something arrived, failed or stopped
  std::deque<Piece> pieces_;      ///< not yet issued completely
  std::size_t at_ = 0;            ///< next request of the first piece
  std::deque<Place> window_;      ///< issued and not all released, from number first_ on
  std::int64_t first_ = 0;
  std::int64_t head_ = 0;         ///< byte of staging where the next place may begin
  std::vector<Arrival> arrived_;  ///< not yet taken
  std::size_t wanted_ = 1;        ///< arrivals for which the caller is woken
  bool starved_ = false;          ///< the next request waits for room
  bool stopping_ = false, failed_ = false;
  int reading_ = 0;  ///< pread threads inside a read
  std::exception_ptr reason_;
  std::string pin_refusal_;
  ReadCounters counters_;
  int starting_ = 0;  ///< threads that have not yet said that they run
  std::unique_ptr<std::vector<std::thread>> threads_;
};

}  // namespace foregather
