// Buckets: the kept rows grouped by next use, for Belady's rule in constant time per row.
//
// Bucket b holds the rows that are wanted next in batch b of the horizon. A row leaves in one of
// two ways: its batch comes, and the whole bucket is dropped, or it is evicted from the highest
// bucket. So buckets are stacks, here lists of small chunks from one pool: nothing is ever unlinked
// from the middle, and the rows next to be evicted lie side by side, so that they can be
// prefetched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/buffer.hpp"
#include "plan/bit_tree.hpp"

namespace foregather {

class Buckets {
 public:
  static constexpr std::size_t kChunk = 32;  ///< words: a link and 31 rows

  /// Bytes that reset(buckets, rows) may need.
  static std::size_t bytes(std::size_t buckets, std::size_t rows) {
    return Buffer<std::uint32_t>::bytes_for(chunks(buckets, rows) * kChunk) + buckets * 9;
  }

  /// Empties all; there will be at most `rows` rows in at most `buckets` buckets.
  void reset(std::size_t buckets, std::size_t rows) {
    heads_.assign(buckets, Head{});
    set_.reset(buckets);
    pool_.reserve_exactly(chunks(buckets, rows) * kChunk);
    used_ = 0;
    free_ = kNoChunk;
    largest_ = -1;
  }

  void push(std::size_t bucket, std::uint32_t row) {
    Head& head = heads_[bucket];
    if (head.fill == 0) {
      set_.insert(bucket);
      if (static_cast<std::int64_t>(bucket) > largest_)
        largest_ = static_cast<std::int64_t>(bucket);
    }
    if (head.fill == 0 || head.fill == kChunk - 1) {
      const std::uint32_t made = take();
      pool_[made * kChunk] = head.fill == 0 ? kNoChunk : head.chunk;
      head = {made, 0};
    }
    pool_[head.chunk * kChunk + ++head.fill] = row;
  }

  /// The highest bucket with rows, -1 if all are empty.
  std::int64_t highest() const { return largest_; }

  /// Takes a row out of the highest bucket, which must exist.
  std::uint32_t pop() {
    const auto bucket = static_cast<std::size_t>(largest_);
    Head& head = heads_[bucket];
    const std::uint32_t row = pool_[head.chunk * kChunk + head.fill];
    if (--head.fill == 0) shrink(bucket);
    return row;
  }

  /// What will be popped `after` pops from now (fewer than a chunk holds), if it lies in the same
  /// bucket; else what is popped last of this chunk.
  std::uint32_t peek(std::uint32_t after) const {
    const Head& head = heads_[static_cast<std::size_t>(largest_)];
    if (head.fill > after) return pool_[head.chunk * kChunk + head.fill - after];
    const std::uint32_t before = pool_[head.chunk * kChunk];
    if (before == kNoChunk) return pool_[head.chunk * kChunk + 1];
    return pool_[before * kChunk + kChunk - 1 - (after - head.fill)];
  }

  /// Drops all rows of a bucket.
  void drop(std::size_t bucket) {
    Head& head = heads_[bucket];
    if (head.fill == 0) return;
    for (std::uint32_t chunk = head.chunk; chunk != kNoChunk;) {
      const std::uint32_t before = pool_[chunk * kChunk];
      give(chunk);
      chunk = before;
    }
    head.fill = 0;
    emptied(bucket);
  }

 private:
  static constexpr std::uint32_t kNoChunk = 0xffffffffu;
  struct Head {
    std::uint32_t chunk = kNoChunk;
    std::uint32_t fill = 0;  ///< rows in the first chunk; 0 only where the bucket is empty
  };

  static std::size_t chunks(std::size_t buckets, std::size_t rows) {
    // a bucket has at most one chunk that is not full
    return rows / (kChunk - 1) + (rows < buckets ? rows : buckets) + 1;
  }
  std::uint32_t take() {
    if (free_ == kNoChunk) return used_++;
    const std::uint32_t chunk = free_;
    free_ = pool_[chunk * kChunk];
    return chunk;
  }
  void give(std::uint32_t chunk) {
    pool_[chunk * kChunk] = free_;
    free_ = chunk;
  }
  void shrink(std::size_t bucket) {
    Head& head = heads_[bucket];
    const std::uint32_t before = pool_[head.chunk * kChunk];
    give(head.chunk);
    if (before == kNoChunk) return emptied(bucket);
    head = {before, kChunk - 1};
    const std::uint32_t next = pool_[before * kChunk];
    if (next == kNoChunk) return;
    __builtin_prefetch(&pool_[next * kChunk]);  // one chunk of pops ahead
    __builtin_prefetch(&pool_[next * kChunk + kChunk / 2]);
  }
  void emptied(std::size_t bucket) {
    set_.erase(bucket);
    if (static_cast<std::int64_t>(bucket) == largest_) largest_ = set_.largest();
  }

  std::vector<Head> heads_;
  BitTree set_;
  Buffer<std::uint32_t> pool_;
  std::uint32_t used_ = 0;
  std::uint32_t free_ = kNoChunk;
  std::int64_t largest_ = -1;
};

}  // namespace foregather
