// Reader: executes a list of reads of one file into the caller's memory.
//
// A request is (offset in the file, length, destination in the buffer). Three backends execute
// the same requests and leave the same bytes; they form a ladder, best first:
//     io_uring   O_DIRECT, one thread, up to `depth` reads in flight on a kernel ring
//     pread      O_DIRECT, `depth` threads that each read one request at a time
//     buffered   through the page cache, `depth` threads; works on every file system
//
// Contract:
// - read() returns when every requested byte is in the buffer, or throws. After it has thrown,
//   the buffer's content is unspecified, but nothing writes to it any more, and the reader can be
//   used again.
// - Direct backends need offset, length and destination in multiples of `alignment()`, and a
//   buffer that starts at one; otherwise InputError, before anything is read.
// - If the file has block sums, every request is checked by the thread that completes it; a block
//   that differs is a FormatError. Requests must be whole blocks then.
// - A request that the file cannot fill is a StorageError: short reads are continued, and the end
//   of the file is never ignored silently.
// - Destinations of one call must not overlap (not checked): reads finish in any order.
// - Calls from several threads take turns. A reader per thread is faster: a kernel ring belongs to
//   one thread, so it is made anew whenever the calling thread changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace foregather {

class BlockSums;
class Descriptor;
class Ring;

enum class Backend { kUring, kPread, kBuffered };

inline constexpr Backend kLadder[] = {Backend::kUring, Backend::kPread, Backend::kBuffered};
inline constexpr int kMaxDepth = 1024;

/// "io_uring", "pread" or "buffered", and back (InputError for another word).
const char* backend_name(Backend backend);
Backend parse_backend(const std::string& name);

/// A list of requests, as three arrays of equal length.
struct Requests {
  std::span<const std::int64_t> offset;       ///< byte in the file
  std::span<const std::int64_t> length;       ///< bytes, > 0
  std::span<const std::int64_t> destination;  ///< byte in the buffer

  std::size_t size() const { return offset.size(); }
};

/// What a reader has done since it was opened; failed calls count what they finished.
struct ReadCounters {
  std::int64_t requests = 0;     ///< requests finished
  std::int64_t bytes = 0;        ///< bytes of the finished requests
  std::int64_t submissions = 0;  ///< system calls that handed reads to the kernel
  std::int64_t retries = 0;      ///< reads handed over again (short, interrupted, no resources)
  double seconds = 0;            ///< wall time inside read()
};

class BlockReader {
 public:
  /// Opens a regular file for one backend.
  ///
  /// @param path the file
  /// @param backend how to read; StorageError says why where it cannot be had
  /// @param depth reads in flight, 1 to kMaxDepth
  /// @param name what errors call the file; empty: the last part of the path
  /// @param sums what the bytes must be; null: not known
  BlockReader(const std::string& path, Backend backend, int depth, std::string name = {},
              std::shared_ptr<const BlockSums> sums = nullptr);
  ~BlockReader();
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  /// Executes the requests; see the contract above.
  void read(const Requests& requests, std::span<std::byte> buffer);

  /// Announces memory that read() will be given, whole or in part: io_uring pins it once instead
  /// of at every read. It must stay mapped as it is until detach() or the end of the reader.
  /// Returns whether it was pinned; `pin_refusal()` says why not. Other backends ignore it.
  bool attach(std::span<std::byte> memory);
  void detach();

  Backend backend() const { return backend_; }
  int depth() const { return depth_; }
  /// What offsets, lengths and destinations must be multiples of; 1 for buffered reads.
  std::int64_t alignment() const { return alignment_; }
  const std::string& name() const { return name_; }
  std::string pin_refusal() const;
  ReadCounters counters() const;

 private:
  void check(const Requests& requests, std::span<std::byte> buffer) const;
  void read_ring(const Requests& requests, std::byte* buffer);
  void read_threads(const Requests& requests, std::byte* buffer);
  Ring& own_ring();

  std::string name_;
  Backend backend_;
  int depth_;
  std::int64_t alignment_ = 1;
  std::shared_ptr<const BlockSums> sums_;
  std::unique_ptr<Descriptor> file_;
  mutable std::mutex lock_;  ///< held by read, attach, detach, counters
  ReadCounters counters_;
  std::span<std::byte> attached_;
  std::string pin_refusal_;
  std::unique_ptr<Ring> ring_;
  std::uint64_t ring_thread_ = 0;  ///< the thread the ring belongs to
  int ring_process_ = 0;           ///< and its process: a ring does not survive a fork
};

}  // namespace foregather
