// Bound: the fewest reads that any policy could do, whatever it knows.
//
// Two consecutive uses of a unit form an interval; keeping the unit over it saves one read and
// takes one place at every step it covers. So
//     reads = uses - (largest number of intervals with at most `slots` over any step),
// and dropping, wherever too many overlap, the interval that ends last finds that number. No unit
// has to be known by name for this: Sweep counts kept intervals by their end, in constant time
// each.
//
// - Row bound: units are rows. Exact for plans that read row by row (one row per block).
// - Block bound: units are blocks (a row belongs to the block in which it starts), and a block is
//   assumed to take a single slot. A policy that keeps rows cannot do better: if it holds any row
//   of a block, the bound pretends that it holds all of them.
// Both start from the rows already in the cache. Linear time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace foregather {

using Batches = std::span<const std::span<const std::uint32_t>>;

/// Rows of all batches.
inline std::size_t count_rows(Batches batches) {
  std::size_t rows = 0;
  for (const auto& batch : batches) rows += batch.size();
  return rows;
}

/// Counts the reads of Belady's rule from next uses alone, step after step.
class Sweep {
 public:
  Sweep(std::size_t steps, std::int64_t slots);
  ~Sweep();
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  /// A unit that is in the cache before the first step and wanted at `step`.
  void carry(std::size_t step) { add(step); }
  /// Begins the next step: how many of its units are still kept.
  std::int64_t begin();
  /// A unit of this step is wanted again at a later step.
  void add(std::size_t step);
  /// Ends the step: keeps at most `slots`.
  void end();

 private:
  struct Set;
  std::unique_ptr<Set> set_;
  std::vector<std::int64_t> ends_;  ///< kept intervals by their last step
  std::int64_t slots_;
  std::int64_t kept_ = 0;
  std::size_t step_ = 0;
};

/// Throws InputError unless all rows are in the file.
void check_rows(const Geometry& geometry, std::span<const std::uint32_t> rows);

/// Scratch of block_bound, kept from bulk to bulk.
struct BlockScratch {
  std::vector<std::uint32_t> last;  ///< by block: the step that used it, counted from the end
  std::vector<std::uint32_t> next;  ///< next uses, from the last step to the first
};

/// The block bound of a bulk. `cached` are the rows in the cache before it.
std::int64_t block_bound(const Geometry& geometry, Batches batches, std::int64_t num_slots,
                         std::span<const std::uint32_t> cached, BlockScratch& scratch);

/// The row bound of a bulk; its tables grow with the bulk, by 16 bytes an access.
std::int64_t row_bound(Batches batches, std::int64_t num_slots,
                       std::span<const std::uint32_t> cached);

}  // namespace foregather
