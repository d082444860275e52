// Call planner: plans one call at a time, where no future is known.
//
// The cache is kept by SIEVE at row granularity: rows in order of insertion, one "visited" bit
// each, and a hand that moves from the oldest to the newest, clears bits and evicts the first row
// without one. A hit only sets a bit. What a call misses is read in blocks, sorted, and merged
// over gaps of up to `gap_bytes`; rows that come along are not kept, since nothing says that they
// will be used.
//
// Contract:
// - The plan has one step. Ids may repeat and come in any order. Without repeats, output row k is
//   row ids[k]. With repeats, the output has the distinct rows, ascending, and `inverse` tells
//   which of them stands for ids[k].
// - Planning changes the cache at once: a plan must be carried out, in order, by an executor with
//   the same geometry and slots. A call with more missed rows than slots keeps the first ones.
// - Ids outside [0, num_rows) are an InputError that names the position; nothing changes then.
// - Memory: memory_bytes() for the tables, constant, in addition to the plan itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace foregather {

struct CallPlan {
  std::shared_ptr<Plan> plan;
  std::vector<std::uint32_t> inverse;  ///< empty where no id repeats
};

/// Which rows are cached where: SIEVE over slots 0 to n - 1. Deterministic.
class SieveSlots {
 public:
  explicit SieveSlots(std::int64_t num_slots);

  /// The slot of a row, marked as visited, or kNone.
  std::uint32_t find(std::uint32_t row);
  /// Begins a call: slots given out from now on are not taken back before the next call.
  void begin() { ++call_, given_ = 0; }
  /// A slot for a row that is not cached, or kNone where all were given out in this call.
  std::uint32_t insert(std::uint32_t row);
  std::int64_t size() const { return used_; }

  /// Bytes of the tables for one slot, at most.
  static constexpr std::int64_t kSlotBytes = 4 + 4 + 4 + 4 + 1 + 16;
  std::int64_t memory_bytes() const;

 private:
  std::size_t home(std::uint32_t row) const;
  void forget(std::uint32_t row);
  std::uint32_t evict();
  void unlink(std::uint32_t slot);
  void link_newest(std::uint32_t slot);

  std::uint32_t num_slots_;
  std::uint32_t used_ = 0, given_ = 0, call_ = 0;
  std::uint32_t newest_ = kNone, oldest_ = kNone, hand_ = kNone;
  std::vector<std::uint32_t> row_, newer_, older_, stamp_;  ///< by slot
  std::vector<std::uint8_t> visited_;
  std::vector<std::uint32_t> table_;  ///< open addressing: slots, kNone where empty
};

class CallPlanner {
 public:
  CallPlanner(const Geometry& geometry, std::int64_t num_slots, std::int64_t gap_bytes,
              std::int64_t max_request);

  /// Plans one call; Id is std::uint32_t or std::int64_t.
  template <typename Id>
  CallPlan plan(std::span<const Id> ids);

  std::int64_t memory_bytes() const { return slots_.memory_bytes(); }

 private:
  void plan_rows(Plan& plan, std::span<const std::uint32_t> rows,
                 std::span<const std::uint32_t> positions);
  void add_copy(Plan& plan, std::uint32_t row, std::uint32_t position) const;

  const Geometry geometry_;
  const std::int64_t gap_bytes_, max_request_;
  const std::int64_t num_slots_;
  SieveSlots slots_;
};

}  // namespace foregather
