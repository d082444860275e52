// Prefix: the part of a row that a tree may see.
//
// Rows of a timed relation ascend by time, so the edges no later than a limit are a prefix of
// the row. Its length is found by bisection. The rows of a block are bisected in step, one probe of
// each and then the next, so that their cache misses overlap.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace foregather {

/// Rows that are bisected together. With 16, which took 1.1 times as long, what was prefetched in
/// one turn had not come in the next.
inline constexpr std::size_t kPrefixRows = 32;

/// One row: its entries [begin, begin + length) shrink to those with time <= limit.
struct PrefixRow {
  std::int64_t begin;
  std::int64_t limit;
  std::uint32_t length;
};

/// Cuts at most kPrefixRows rows to their prefixes.
inline void cut_rows(const std::int64_t* time, std::span<PrefixRow> rows) {
  std::array<std::int64_t, kPrefixRows> base;
  std::array<std::uint32_t, kPrefixRows> left;
  std::uint32_t longest = 0;
  for (std::size_t k = 0; k < rows.size(); ++k) {
    base[k] = rows[k].begin;
    left[k] = rows[k].length;
    longest = std::max(longest, left[k]);
    if (left[k] > 0) __builtin_prefetch(&time[base[k] + (left[k] - 1) / 2]);
  }
  // The answer is in [base, base + left]; a probe below the half-way point drops one half.
  for (; longest > 1; longest -= longest / 2) {
    for (std::size_t k = 0; k < rows.size(); ++k) {
      if (left[k] < 2) continue;
      const std::uint32_t half = left[k] / 2;
      base[k] += time[base[k] + half - 1] <= rows[k].limit ? half : 0;
      left[k] -= half;
      __builtin_prefetch(&time[base[k] + left[k] / 2 - (left[k] > 1 ? 1 : 0)]);
    }
  }
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const bool more = left[k] > 0 && time[base[k]] <= rows[k].limit;
    rows[k].length = static_cast<std::uint32_t>(base[k] - rows[k].begin) + (more ? 1 : 0);
  }
}

}  // namespace foregather
