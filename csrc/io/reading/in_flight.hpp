// In flight: the reads that the kernel has on one ring: handed over, taken back, never left behind.
// Private to the readers.
//
// Invariants: `count` is what the kernel has and we have not taken back, at every moment; after
// `drain` it is 0, so the kernel is done with every buffer.
#pragma once

#include <cerrno>
#include <cstdio>
#include <exception>

#include "io/files/file.hpp"
#include "io/reading/ring.hpp"

namespace foregather {

class InFlight {
 public:
  InFlight(Ring& ring, const File& file) : ring_(ring), file_(file) {}

  /// Reads that the kernel has or that wait in the queue to be handed over.
  unsigned busy() const { return count_ + ring_.queued(); }

  /// Hands over what is queued and waits for `wait` completions; temporary refusals are retried.
  ///
  /// @param submissions incremented if anything was handed over
  /// @param retries incremented if the kernel refused for a moment
  void submit(unsigned wait, std::int64_t& submissions, std::int64_t& retries) {
    if (ring_.queued() > 0) ++submissions;
    const int taken = ring_.enter(wait);
    if (taken >= 0) {
      count_ += static_cast<unsigned>(taken);
      stuck_ = 0;
      return;
    }
    if (!passing(-taken) || ++stuck_ > kMostTries) {
      throw StorageError("io_uring stopped while reading " + file_.name + ": " + errno_text(-taken),
                         -taken);
    }
    ++retries;
    if (taken == -EINTR) return;
    // No memory for more requests just now: finish one, or give the system a moment.
    if (count_ > 0) {
      ring_.wait(1);
    } else {
      pause();
    }
  }

  /// Takes one completion if there is one.
  bool take(RingResult& result) {
    if (!ring_.pop(result)) return false;
    --count_;
    return true;
  }

  /// Takes every completion, each shown to `finished`; what was not handed over is forgotten.
  template <typename Finished>
  void drain(Finished finished) noexcept {
    ring_.rewind();
    for (int tries = 0; count_ > 0;) {
      const int code = -ring_.wait(count_);
      for (RingResult result; take(result);) finished(result);
      if (code == 0 || code == EINTR) continue;
      if (++tries > 10 * kMostTries) {
        // The kernel still owns memory that is about to be freed: stopping is the only answer that
        // cannot corrupt it. Only a ring closed behind our back leads here.
        std::fprintf(stderr, "foregather: io_uring does not answer: %s\n",
                     errno_text(code).c_str());
        std::terminate();
      }
      pause();
    }
  }

 private:
  Ring& ring_;
  const File& file_;
  unsigned count_ = 0;  ///< reads the kernel has
  int stuck_ = 0;       ///< submissions refused in a row
};

}  // namespace foregather
