// BlockPass: decides one ordered pass over a file: which of the marked blocks are in the cache,
// where the others arrive, which of them are kept, and in whose place.
//
// A pass is: mark() the blocks that are needed (any thread), plan() once, look up place() of marked
// blocks; then, window after window, requests() to read and keep() to put arrived blocks into the
// cache. Blocks that are not in the cache get consecutive places in a stream, in the order of the
// file; a window is `window_blocks` places of that stream, so its bytes fit one staging buffer.
// Two blocks with at most `gap_blocks` between them are read by one request, the gap included.
//
// The cache keeps the blocks that most passes needed (least frequently used goes first; at equal
// counts what is in the cache stays, so that a pass over everything does not flush it). Which picks
// come next is not known, but how often a block was needed before is a good guide: it shows how
// likely its rows are to be reached. Counts are 8 bits; all are halved when one is full.
//
// Memory: 5.125 bytes per block of the file and 4 per slot. All tables have their size from the
// start.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "parallel/buffer.hpp"

namespace foregather {

/// Where blocks lie and how they are read; all powers of two or counts.
struct PassShape {
  int block_shift;             ///< log2 of the bytes of a block
  std::int64_t file_bytes;     ///< requests end here
  std::int64_t gap_blocks;     ///< unneeded blocks that are read through
  std::int64_t request_bytes;  ///< of one request at most; a multiple of the block
  int window_shift;            ///< log2 of the blocks of a window
  std::int64_t num_slots;      ///< blocks the cache holds

  std::int64_t block_bytes() const { return std::int64_t{1} << block_shift; }
  std::int64_t window_blocks() const { return std::int64_t{1} << window_shift; }
  std::int64_t num_blocks() const { return (file_bytes + block_bytes() - 1) >> block_shift; }
};

/// The requests of one window; destinations are bytes of the window's buffer.
struct WindowRequests {
  std::vector<std::int64_t> offset, length, destination;
  std::int64_t bytes = 0;
};

/// What passes have needed and moved.
struct PassCounters {
  std::int64_t passes = 0;
  std::int64_t blocks = 0;      ///< needed: hits + misses
  std::int64_t block_hits = 0;  ///< of them in the cache
  std::int64_t requests = 0;    ///< planned
  std::int64_t bytes = 0;       ///< planned, gaps included
};

class BlockPass {
 public:
  explicit BlockPass(const PassShape& shape);

  /// Marks a block as needed; may be called from any thread, before plan().
  void mark(std::int64_t block) {
    std::atomic_ref<std::uint64_t> word(marks_[static_cast<std::size_t>(block >> 6)]);
    const std::uint64_t bit = std::uint64_t{1} << (block & 63);
    // relaxed: the threads are joined before plan() looks; the test saves most of the locked writes
    if ((word.load(std::memory_order_relaxed) & bit) == 0) {
      word.fetch_or(bit, std::memory_order_relaxed);
    }
  }

  /// Decides the pass. Returns the number of windows.
  std::int64_t plan();

  static constexpr std::uint32_t kCached = 0x80000000u;  ///< flag of a place: the rest is a slot
  /// Slot or stream place of a marked block; slots hold until the first keep() of the pass.
  std::uint32_t place(std::int64_t block) const { return place_[static_cast<std::size_t>(block)]; }

  /// The requests of a window, windows in ascending order.
  void requests(std::int64_t window, WindowRequests& out);

  /// Calls copy(stream place, slot) for the blocks of a window that stay in the cache; each window
  /// once, in order, after all picks of blocks in the cache were resolved.
  template <typename Copy>
  void keep(std::int64_t window, Copy&& copy) {
    each_missing(window, [&](std::int64_t block) {
      const std::uint32_t place = place_[static_cast<std::size_t>(block)];
      const std::int64_t slot = admit(block);
      if (slot >= 0) copy(place, slot);
    });
  }

  /// Ends the pass: nothing is marked afterwards.
  void finish();

  /// Empties the cache and forgets an unfinished pass; after an error.
  void forget();

  std::int64_t cached_blocks() const { return filled_; }
  const PassShape& shape() const { return shape_; }
  const PassCounters& counters() const { return counters_; }
  /// Bytes of the tables for a shape.
  static std::size_t bytes(const PassShape& shape);

 private:
  static constexpr std::uint32_t kFree = 0xFFFFFFFFu;  ///< a slot without a block

  std::int64_t count_uses();
  void choose_threshold();
  std::int64_t admit(std::int64_t block);
  std::int64_t next_victim();
  template <typename Body>
  void each_missing(std::int64_t window, Body&& body) const;

  PassShape shape_;
  Buffer<std::uint64_t> marks_;  ///< needed blocks; from plan() on only those to be read
  std::size_t num_words_;
  Buffer<std::uint32_t> place_;      ///< [block] slot with kCached, or stream place
  Buffer<std::uint8_t> uses_;        ///< [block] passes that needed it, aged
  Buffer<std::uint32_t> owner_;      ///< [slot] its block
  std::vector<std::int64_t> first_;  ///< [window] its first block; one more at the end
  std::int64_t filled_ = 0;          ///< slots with a block: the first ones
  // what this pass keeps: counts above threshold_, and as many at it as these numbers say
  int threshold_ = 0;
  std::int64_t ties_in_ = 0, ties_out_ = 0;
  std::int64_t victim_ = 0;  ///< slot from which a victim is looked for
  PassCounters counters_;
};

template <typename Body>
void BlockPass::each_missing(std::int64_t window, Body&& body) const {
  const auto w = static_cast<std::size_t>(window);
  const std::int64_t begin = first_[w], end = first_[w + 1];
  for (std::int64_t at = begin >> 6; at << 6 < end; ++at) {
    std::uint64_t word = marks_[static_cast<std::size_t>(at)];
    if (at << 6 < begin) word &= ~std::uint64_t{0} << (begin & 63);
    if (end - (at << 6) < 64) word &= (std::uint64_t{1} << (end & 63)) - 1;
    for (; word != 0; word &= word - 1) body((at << 6) + __builtin_ctzll(word));
  }
}

}  // namespace foregather
