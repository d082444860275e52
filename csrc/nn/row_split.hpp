// Row split: rows with lists of unequal length, dealt to threads by the length of their lists.
// Private.
//
// A block is a range of whole rows with about equally many list entries; a row counts as one more,
// for what it costs to write it. Which thread computes a row never changes what is computed.
// Work that is over before another thread is awake stays with the caller.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "parallel/pool.hpp"

namespace foregather::nn {

inline constexpr std::int64_t kGrain = 64 * 1024;  // values (entries times columns) a task
inline constexpr std::int64_t kAhead = 12;         // entries whose rows are asked for ahead of use

/// Calls body(first row, last row) for blocks of rows; ptr has rows + 1 entries.
template <typename Body>
void each_block(const std::int64_t* ptr, std::int64_t rows, std::int64_t width, int threads,
                const Body& body) {
  if (rows <= 0) return;
  const std::int64_t start = ptr[0], total = ptr[rows] - start + rows;
  const std::int64_t most = total * std::max<std::int64_t>(width, 1) / kGrain;
  if (threads <= 0) threads = default_threads();
  if (threads == 1 || most <= 1) return body(std::int64_t{0}, rows);
  // Few blocks a thread: enough for one that comes late, or is slower, to take fewer.
  const std::int64_t blocks = std::min<std::int64_t>(most, std::int64_t{16} * threads);
  const auto row_at = [&](std::int64_t block) {
    const std::int64_t share = total / blocks * block;
    std::int64_t low = 0, high = rows;
    while (low < high) {
      const std::int64_t row = low + (high - low) / 2;
      if (ptr[row] - start + row < share) {
        low = row + 1;
      } else {
        high = row;
      }
    }
    return low;
  };
  parallel_tasks(blocks, threads, [&](std::int64_t block, int) {
    const std::int64_t last = block + 1 == blocks ? rows : row_at(block + 1);
    if (const std::int64_t first = row_at(block); first < last) body(first, last);
  });
}

/// Asks for huge pages for memory that is about to be written for the first time. Only advice: a
/// large result is otherwise made page by page, which can take longer than the sums.
inline void expect_writes(void* data, std::int64_t bytes) {
  constexpr std::uintptr_t kHuge = std::uintptr_t{2} << 20;
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + kHuge - 1) / kHuge * kHuge;
  const auto end =
      (reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(bytes)) / kHuge * kHuge;
  if (begin < end && end - begin >= 2 * kHuge) {
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  }
}

}  // namespace foregather::nn
