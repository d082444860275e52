// RunningBound: the fewest reads that any policy could have done so far, bulk after bulk.
//
// A bound of one bulk that starts from what our own plans left in the cache says nothing about a
// policy that kept something else, so such bounds must not be added up. This one looks back
// instead: a unit that is used at step t and was used before at step p could have been kept over
// the gaps p to t - 1, at one place in each. Taken in the order of their ends, and at one end the
// shortest first, an interval is accepted where every gap it covers has a place left. That accepts
// as many intervals as possible (earliest end first is optimal for intervals on a line with equal
// capacities), at every step at once: after any number of bulks,
//     uses - accepted = the fewest reads of any policy that began with the same cache,
// exactly where units are rows that are read one by one, and a lower bound where units are blocks
// of which each takes the place of one row.
//
// A gap that is full stays full, so nothing that began before the last full gap can be accepted:
// only the gaps behind it are stored. At most kWindow of them are; older ones are taken for empty,
// which only lowers the bound.
//
// Memory: 4 bytes per unit and 24 per gap. Time: one table access per use, and the stored gaps per
// step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/buffer.hpp"
#include "plan/bounds/bound.hpp"
#include "plan/miss.hpp"

namespace foregather {

class RunningBound {
 public:
  static constexpr std::size_t kWindow = 4096;  ///< gaps stored

  RunningBound(std::size_t units, std::int64_t slots);

  /// Forgets all uses: what is asked for from now on is counted anew, with an empty cache.
  void begin();
  /// A unit that is in the cache now, after begin() and before the first step.
  void hold(std::size_t unit) { last_[unit] = now_; }

  /// Begins the next step.
  void open();
  /// A unit is used in this step; further uses in the same step do not count.
  void use(std::size_t unit) {
    std::uint32_t& last = last_[unit];
    if (last == now_) return;
    ++uses_;
    if (last >= floor_) ++ends_[last < first_ ? 0 : last - first_];
    last = now_;
  }
  /// Ends the step: the reads it adds to the fewest possible.
  std::int64_t close();

  /// Bytes of the tables.
  static std::int64_t bytes(std::int64_t units) {
    return static_cast<std::int64_t>(
        Buffer<std::uint32_t>::bytes_for(static_cast<std::size_t>(units)) + kWindow * 24);
  }

 private:
  Buffer<std::uint32_t> last_;  ///< by unit: the step of its last use
  std::size_t units_;
  std::int64_t slots_;
  std::uint32_t now_ = 0;            ///< number of the step; steps are numbered over all begins
  std::uint32_t floor_ = 1;          ///< intervals that begin before this step cannot be kept
  std::uint32_t first_ = 1;          ///< the first stored gap; at least floor_
  std::int64_t uses_ = 0;            ///< of the step
  std::vector<std::int64_t> taken_;  ///< by stored gap: places taken
  std::vector<std::int64_t> ends_;   ///< by stored gap: intervals that begin there and end now
};

/// The running bound of the blocks of a file, for rows that are asked for.
class BlockBound {
 public:
  BlockBound(const Geometry& geometry, std::int64_t slots)
      : extents_(geometry, RequestShape{}), bound_(blocks(geometry), slots) {}

  /// Counts anew; `cached` are the rows in the cache now, kNone where there is none.
  void begin(std::span<const std::uint32_t> cached) {
    bound_.begin();
    for (std::uint32_t row : cached) {
      if (row != kNone) bound_.hold(static_cast<std::size_t>(extents_.block(row)));
    }
  }
  /// What a batch adds to the fewest blocks.
  std::int64_t step(std::span<const std::uint32_t> batch) {
    if (batch.empty()) return 0;  // no interval begins or ends here: its gap is the next one's
    bound_.open();
    for (std::uint32_t row : batch) bound_.use(static_cast<std::size_t>(extents_.block(row)));
    return bound_.close();
  }
  /// What a bulk adds.
  std::int64_t bulk(Batches batches) {
    std::int64_t blocks = 0;
    for (const auto& batch : batches) blocks += step(batch);
    return blocks;
  }

  static std::int64_t bytes(const Geometry& geometry) {
    return RunningBound::bytes(static_cast<std::int64_t>(blocks(geometry)));
  }

 private:
  static std::size_t blocks(const Geometry& geometry) {
    return static_cast<std::size_t>(geometry.file_bytes / geometry.block_bytes + 1);
  }

  Extents extents_;
  RunningBound bound_;
};

}  // namespace foregather
