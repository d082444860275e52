// Flight: one read() on a kernel ring, from the first request to the last completion. Private to
// the reader.
//
// Invariants: every slot is free, queued in the ring, in flight, or waiting in `again_`; the ring
// never holds more than `depth` reads; and nothing is in flight when a Flight is gone.
#pragma once

#include <algorithm>
#include <vector>

#include "io/files/file.hpp"
#include "io/reading/in_flight.hpp"
#include "io/reading/reader.hpp"
#include "io/reading/ring.hpp"

namespace foregather {

// One read() on a ring. Between construction and destruction it owns what is in flight: leaving,
// also by an exception, takes every completion first, so the kernel is done with the buffer.
class Flight {
 public:
  Flight(Ring& ring, const File& file, const Requests& requests, std::byte* buffer, int depth,
         ReadCounters& counters)
      : ring_(ring),
        file_(file),
        requests_(requests),
        buffer_(buffer),
        depth_(static_cast<unsigned>(depth)),
        // Submitting at least a quarter (16 of 64) at once shares the cost of the system call, and
        // three quarters stay in flight meanwhile: the disk never runs dry.
        batch_(std::max(1u, depth_ / 4)),
        counters_(counters),
        slots_(depth_),
        flight_(ring, file) {
    free_.reserve(depth_);
    again_.reserve(depth_);  // nothing below allocates
    for (unsigned slot = depth_; slot-- > 0;) free_.push_back(slot);
  }
  ~Flight() {
    flight_.drain([](const RingResult&) {});
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  void run() {
    while (free_.size() < depth_ || next_ < requests_.size()) {
      refill();
      const unsigned busy = flight_.busy();
      const bool more = !again_.empty() || next_ < requests_.size();
      flight_.submit(more ? std::min(batch_, busy) : busy, counters_.submissions,
                     counters_.retries);
      RingResult result;
      while (flight_.take(result)) finish(result);
    }
  }

 private:
  struct Slot {
    std::size_t request;
    std::int64_t done;   ///< bytes in the buffer so far
    std::int64_t asked;  ///< bytes of the read in flight
    int tries;           ///< reads that moved nothing
  };

  void refill() {
    const unsigned busy = flight_.busy();
    if (busy > 0 && depth_ - busy < batch_) return;
    while (!again_.empty()) {
      push(again_.back());
      again_.pop_back();
    }
    while (!free_.empty() && next_ < requests_.size()) {
      const unsigned slot = free_.back();
      free_.pop_back();
      slots_[slot] = {next_++, 0, 0, 0};
      push(slot);
    }
  }

  void push(unsigned slot) {
    Slot& at = slots_[slot];
    const std::int64_t left = requests_.length[at.request] - at.done;
    at.asked = std::min(left, kMostPerRead);
    ring_.push({buffer_ + requests_.destination[at.request] + at.done,
                static_cast<std::uint32_t>(at.asked), requests_.offset[at.request] + at.done,
                slot});
  }

  void finish(const RingResult& result) {
    const auto slot = static_cast<unsigned>(result.tag);
    Slot& at = slots_[slot];
    const std::int64_t offset = requests_.offset[at.request];
    const std::int64_t length = requests_.length[at.request];
    if (result.result < 0) {
      if (!passing(-result.result) || ++at.tries > kMostTries) {
        file_.fail(-result.result, offset + at.done);
      }
    } else {
      at.done = file_.advance(offset, length, at.done, result.result);
      at.tries = 0;
      if (at.done == length) {
        file_.check(offset, length, buffer_ + requests_.destination[at.request]);
        ++counters_.requests;
        counters_.bytes += length;
        free_.push_back(slot);
        return;
      }
    }
    if (result.result < at.asked) ++counters_.retries;
    again_.push_back(slot);
  }

  Ring& ring_;
  const File& file_;
  const Requests& requests_;
  std::byte* buffer_;
  const unsigned depth_;
  const unsigned batch_;
  ReadCounters& counters_;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_;   ///< slots without a request
  std::vector<unsigned> again_;  ///< slots whose request continues
  std::size_t next_ = 0;         ///< first request not yet in a slot
  InFlight flight_;
};

}  // namespace foregather
