// Miss: the rows a step must read, sorted by row, and the requests that cover them.
//
// A miss is a row (upper 32 bits) and its position in the output (lower 32 bits, kNone if the batch
// did not ask for it). for_requests groups sorted misses into extents: whole blocks, merged where
// the gap between them is at most `merge_gap` bytes and the sum at most `max_request`.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/divisor.hpp"
#include "plan/plan.hpp"

namespace foregather {

using Miss = std::uint64_t;

inline Miss make_miss(std::uint32_t row, std::uint32_t position) {
  return (static_cast<Miss>(row) << 32) | position;
}
inline std::uint32_t miss_row(Miss miss) { return static_cast<std::uint32_t>(miss >> 32); }
inline std::uint32_t miss_position(Miss miss) { return static_cast<std::uint32_t>(miss); }

inline constexpr int kDigit = 12;

/// Sorts by row; rows are below `num_rows`. Linear time.
inline void sort_misses(std::vector<Miss>& misses, std::vector<Miss>& scratch,
                        std::int64_t num_rows) {
  if (misses.size() < 256) {
    std::sort(misses.begin(), misses.end());
    return;
  }
  // as few passes as 12 bits each allow, and no more bits per pass than they need
  const int width =
      std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(num_rows))));
  const int passes = (width + kDigit - 1) / kDigit, bits = (width + passes - 1) / passes;
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  scratch.resize(misses.size());
  for (int shift = 32; shift < 32 + passes * bits; shift += bits) {
    std::array<std::uint32_t, std::size_t{1} << kDigit> at{};
    for (Miss miss : misses) ++at[(miss >> shift) & mask];
    std::uint32_t sum = 0;
    for (std::size_t digit = 0; digit <= mask; ++digit) sum += std::exchange(at[digit], sum);
    for (Miss miss : misses) scratch[at[(miss >> shift) & mask]++] = miss;
    misses.swap(scratch);
  }
}

struct RequestShape {
  std::int64_t merge_gap = 0;          ///< bytes between blocks that may be read and thrown away
  std::int64_t max_request = 1 << 20;  ///< bytes; a wider row makes a longer request
  bool single = false;                 ///< one request for each missed row, of whole pages
};

class Extents {
 public:
  /// Takes any geometry; use only one that check_geometry accepts.
  Extents(const Geometry& geometry, const RequestShape& shape)
      : g_(geometry),
        shape_(shape),
        pages_(
            static_cast<std::uint64_t>(std::max<std::int64_t>(1, geometry.block_bytes / kPage))) {}

  /// Calls each(lo, hi, misses) for every request, ascending; [lo, hi) covers the misses.
  template <typename Each>
  void for_requests(std::span<const Miss> misses, Each&& each) const {
    std::int64_t before = 0;
    for (std::size_t m = 0; m < misses.size();) {
      std::int64_t lo, hi;
      cover(miss_row(misses[m]), lo, hi);
      if (lo < before) lo = g_.start(miss_row(misses[m])) / kPage * kPage;  // cut inside a row
      std::size_t n = m + 1;
      for (; n < misses.size() && !shape_.single; ++n) {
        std::int64_t next_lo, next_hi;
        cover(miss_row(misses[n]), next_lo, next_hi);
        if (next_lo > hi + shape_.merge_gap) break;
        if (next_hi > hi) {
          if (next_hi - lo > shape_.max_request) break;
          hi = next_hi;
        }
      }
      each(lo, hi, misses.subspan(m, n - m));
      before = shape_.single ? 0 : hi;
      m = n;
    }
  }

  /// Rows that lie wholly in [lo, hi): [first, last).
  void rows_inside(std::int64_t lo, std::int64_t hi, std::int64_t& first,
                   std::int64_t& last) const {
    first = lo <= g_.payload ? 0 : (lo - g_.payload + g_.row_bytes - 1) / g_.row_bytes;
    last = hi <= g_.payload ? 0 : std::min(g_.num_rows, (hi - g_.payload) / g_.row_bytes);
  }

  /// The block in which a row starts.
  std::uint64_t block(std::uint32_t row) const {
    return pages_.quotient(static_cast<std::uint64_t>(g_.start(row)) / kPage);
  }

 private:
  void cover(std::uint32_t row, std::int64_t& lo, std::int64_t& hi) const {
    const std::int64_t last = g_.end(row) - 1;
    if (shape_.single) {
      lo = g_.start(row) / kPage * kPage;
      hi = (last / kPage + 1) * kPage;
      return;
    }
    const auto first_block = static_cast<std::int64_t>(block(row));
    lo = first_block * g_.block_bytes;
    const auto last_block =
        static_cast<std::int64_t>(pages_.quotient(static_cast<std::uint64_t>(last) / kPage));
    hi = std::min((last_block + 1) * g_.block_bytes, g_.file_bytes);
  }

  Geometry g_;
  RequestShape shape_;
  Divisor pages_;  ///< pages in a block
};

}  // namespace foregather
