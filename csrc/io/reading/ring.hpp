// Ring: one io_uring instance, used through raw system calls, as an owned resource.
//
// The kernel shares two rings with us: we write reads into the submission queue and tell it with
// `enter`; it writes results into the completion queue. There is no liburing here, so every build
// has io_uring and whether it may be used is decided when it runs.
//
// Contract:
// - A Ring belongs to the thread that made it: `enter` from another thread fails (the kernel is
//   told SINGLE_ISSUER where it understands that).
// - Never more reads in flight than `entries` were asked for; then no completion is ever lost.
// - Destroying a Ring does not wait for reads in flight: the owner first takes their completions,
//   or the kernel may write into memory that is used for something else by then.
// - What the kernel refuses is a StorageError with the reason in words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace foregather {

/// One read as the kernel gets it.
struct RingRead {
  std::byte* address;    ///< where the bytes go
  std::uint32_t length;  ///< bytes
  std::int64_t offset;   ///< in the registered file
  std::uint64_t tag;     ///< handed back with the completion
};

/// What became of a read: bytes moved, or minus an errno.
struct RingResult {
  std::uint64_t tag;
  std::int32_t result;
};

class Ring {
 public:
  /// Makes a ring for `entries` reads in flight on the file `fd`, which stays open meanwhile.
  Ring(unsigned entries, int fd);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Pins `memory` once, so that reads into it need not pin pages each. Returns 0, or the errno
  /// of the refusal (ENOMEM: over the limit on locked memory), after which reads work as before.
  /// The memory must stay mapped as it is until the Ring is gone.
  int pin(std::span<std::byte> memory);

  /// Writes a read into the submission queue; the queue must have room (see `entries`).
  void push(const RingRead& read);
  /// Reads pushed and not yet taken by the kernel.
  unsigned queued() const;
  /// Forgets the reads that the kernel has not taken.
  void rewind();

  /// Hands over what is queued and waits for `wait` completions. Returns how many reads the
  /// kernel took, or minus an errno; a kernel that takes fewer than were queued does not wait.
  int enter(unsigned wait);
  /// Only waits; nothing is handed over. Returns 0 or minus an errno.
  int wait(unsigned count);
  /// Takes one completion if there is one.
  bool pop(RingResult& result);

  bool pinned() const { return pinned_bytes_ > 0; }
  /// True where the kernel runs completions only when we ask (DEFER_TASKRUN, Linux 6.1).
  bool deferred() const { return deferred_; }

 private:
  void map(const void* params);
  void release();
  int buffer_index(const RingRead& read) const;

  int ring_fd_ = -1;
  int file_fd_ = -1;
  bool file_registered_ = false;
  bool deferred_ = false;
  std::byte* rings_ = nullptr;  ///< the shared mapping of both rings
  std::size_t rings_bytes_ = 0;
  void* entries_ = nullptr;  ///< the shared array of submission entries
  std::size_t entries_bytes_ = 0;
  unsigned* sq_head_ = nullptr;  ///< written by the kernel
  unsigned* sq_tail_ = nullptr;  ///< written by us
  unsigned* cq_head_ = nullptr;  ///< written by us
  unsigned* cq_tail_ = nullptr;  ///< written by the kernel
  void* completions_ = nullptr;
  unsigned sq_mask_ = 0;
  unsigned cq_mask_ = 0;
  std::byte* pinned_base_ = nullptr;
  std::size_t pinned_bytes_ = 0;
};

/// The reason why a call was refused, in the words of the C library.
std::string errno_text(int code);

}  // namespace foregather
