// Ring crew: the thread of a ReadAhead that owns a kernel ring and keeps it full. Private.
//
// Invariants: every slot is free, in flight, or waiting in `again_`; nothing is in flight when a
// RingCrew is gone.
#pragma once

#include <algorithm>
#include <vector>

#include "io/files/file.hpp"
#include "io/reading/in_flight.hpp"
#include "io/reading/read_ahead.hpp"
#include "io/reading/ring.hpp"

namespace foregather {

class RingCrew {
 public:
  RingCrew(ReadAhead& owner, Ring& ring, const File& file)
      : owner_(owner),
        ring_(ring),
        file_(file),
        depth_(static_cast<unsigned>(owner.depth_)),
        // A quarter at a time shares the cost of the system call, while three quarters stay in
        // flight: the disk never runs dry.
        batch_(std::max(1u, depth_ / 4)),
        slots_(depth_),
        flight_(ring, file) {
    free_.reserve(depth_), again_.reserve(depth_), finished_.reserve(depth_);
    for (unsigned slot = depth_; slot-- > 0;) free_.push_back(slot);
  }
  ~RingCrew() { drain(); }
  RingCrew(const RingCrew&) = delete;
  RingCrew& operator=(const RingCrew&) = delete;

  /// Serves the ring until the owner stops; throws what went wrong, with reads still in flight.
  void run();

 private:
  struct Slot {
    ReadAhead::Issue issue;
    std::int64_t done;   ///< bytes in staging so far
    std::int64_t asked;  ///< bytes of the read in flight
    int tries;           ///< reads that moved nothing
  };

  bool refill();
  void push(unsigned slot);
  void finish(const RingResult& result);
  void drain() noexcept;
  bool sound(const ReadAhead::Issue& issue) const noexcept;

  ReadAhead& owner_;
  Ring& ring_;
  const File& file_;
  const unsigned depth_;
  const unsigned batch_;
  std::vector<Slot> slots_;
  std::vector<unsigned> free_;   ///< slots without a request
  std::vector<unsigned> again_;  ///< slots whose request continues
  std::vector<ReadAhead::Issue> finished_;
  InFlight flight_;
  std::int64_t submissions_ = 0, retries_ = 0;
};

}  // namespace foregather
