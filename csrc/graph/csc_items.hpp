// Csc items: the parts build_csc is made of; private to csc.cpp.
//
// Items (one edge packed into 4 to 16 bytes), the layout that says where their bits are, the digits
// of a radix sort, and a write-combining distributor.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <utility>
#include <vector>

#include "parallel/pool.hpp"

namespace foregather::csc {

constexpr std::int64_t kBucketEdges = 32 << 10;   // aimed at: 2 x 256 KiB of items stay in L2
constexpr std::int64_t kBucketRows = 16 << 10;    // aimed at: the row counters stay in L2 too
constexpr std::int64_t kMostBuckets = 2048;       // more write streams than this thrash the TLB
constexpr std::int64_t kPartEdges = 64 << 10;     // a thread is not started for fewer edges
constexpr std::int64_t kDirectEdges = 512 << 10;  // below, input order needs no buckets
constexpr std::int64_t kBlock = 2048;             // edges checked, then counted, while in L1
constexpr int kDigitBits = 11;                    // of one radix pass: 2048 counters, 8 KiB
constexpr int kMostPasses = 4;                    // 4 x 11 bits exceed the largest source
constexpr std::int64_t kMostNodes = std::int64_t{1} << 37;  // so that row and source fit 64 bits

// ---- items: one edge on its way to its row -----------------------------------------------------
// bits() holds, from the top: row inside the bucket, source, and the position if it fits.

template <typename Bits>
struct Slim {  // no position wanted, or it is in the bits
  static constexpr bool kCarries = false;
  Bits word;
  static Slim make(std::uint64_t bits, std::int64_t) { return {static_cast<Bits>(bits)}; }
  std::uint64_t bits() const { return word; }
  std::int64_t position() const { return 0; }
};

struct Carrier12 {  // a position below 2^32 next to the bits; halves keep the size at 12
  static constexpr bool kCarries = true;
  std::uint32_t low, high, place;
  static Carrier12 make(std::uint64_t bits, std::int64_t position) {
    return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32),
            static_cast<std::uint32_t>(position)};
  }
  std::uint64_t bits() const { return (std::uint64_t{high} << 32) | low; }
  std::int64_t position() const { return place; }
};

struct Carrier16 {  // any position
  static constexpr bool kCarries = true;
  std::uint64_t word;
  std::int64_t place;
  static Carrier16 make(std::uint64_t bits, std::int64_t position) { return {bits, position}; }
  std::uint64_t bits() const { return word; }
  std::int64_t position() const { return place; }
};

// ---- layout: where the bits are, and how targets are cut into buckets --------------------------

struct Layout {
  std::int64_t num_nodes, num_rows, num_edges, buckets, limit;
  int threads, row_shift, source_bits, source_shift, row_bit;
  bool sort_rows, direct;

  std::int64_t first_row(std::int64_t bucket) const {
    return std::min(bucket << row_shift, num_rows);
  }
  std::uint64_t pack(std::uint64_t row, std::uint64_t source, std::int64_t position) const {
    const std::uint64_t low = source_shift > 0 ? static_cast<std::uint64_t>(position) : 0;
    return (row << row_bit) | (source << source_shift) | low;
  }
  std::uint64_t source(std::uint64_t bits) const {
    return (bits >> source_shift) & ((std::uint64_t{1} << source_bits) - 1);
  }
  std::uint64_t row(std::uint64_t bits) const { return bits >> row_bit; }
  std::int64_t position(std::uint64_t bits) const {
    return static_cast<std::int64_t>(bits & ((std::uint64_t{1} << source_shift) - 1));
  }
};

inline int width_of(std::int64_t count) {  // bits that tell `count` things apart, at least 1
  return count <= 2 ? 1 : std::bit_width(static_cast<std::uint64_t>(count - 1));
}

inline Layout make_layout(std::int64_t num_nodes, std::int64_t num_rows, std::int64_t num_edges,
                          int threads, bool sort_rows) {
  Layout layout{};
  layout.num_nodes = num_nodes;
  layout.num_rows = num_rows;
  layout.num_edges = num_edges;
  layout.threads = static_cast<int>(std::min<std::int64_t>(
      threads > 0 ? threads : default_threads(), 1 + num_edges / kPartEdges));
  layout.sort_rows = sort_rows;
  const std::int64_t wanted = std::clamp<std::int64_t>(
      std::max(num_edges / kBucketEdges, num_rows / kBucketRows), 1, kMostBuckets);
  layout.row_shift = std::max(0, width_of(num_rows) - width_of(wanted));
  layout.buckets = ((num_rows - 1) >> layout.row_shift) + 1;
  layout.limit = std::clamp<std::int64_t>(4 * (num_edges / layout.buckets), 4 * kBucketEdges,
                                          std::numeric_limits<std::int32_t>::max());
  layout.source_bits = width_of(num_nodes);
  return layout;
}

// ---- radix passes ------------------------------------------------------------------------------

// Counters of all passes over a source, lowest digit first; the number of passes is a multiple of
// `multiple`.
struct Digits {
  int passes, width;
  std::uint64_t mask;
  std::array<std::array<std::int64_t, 1 << kDigitBits>, kMostPasses> cursor;

  Digits(int bits, int multiple) {
    passes = (bits + kDigitBits - 1) / kDigitBits;
    passes = (passes + multiple - 1) / multiple * multiple;
    width = (bits + passes - 1) / passes;
    mask = (std::uint64_t{1} << width) - 1;
    for (int pass = 0; pass < passes; ++pass) std::fill_n(cursor[pass].begin(), mask + 1, 0);
  }
  void count(std::uint64_t source) {
    for (int pass = 0; pass < passes; ++pass, source >>= width) ++cursor[pass][source & mask];
  }
  void accumulate() {
    for (int pass = 0; pass < passes; ++pass) {
      std::int64_t total = 0;
      for (std::uint64_t d = 0; d <= mask; ++d) total += std::exchange(cursor[pass][d], total);
    }
  }
  std::int64_t next(int pass, std::uint64_t source) {
    return cursor[pass][(source >> (pass * width)) & mask]++;
  }
};

// ---- write combining ---------------------------------------------------------------------------

constexpr std::size_t kHugePage = 2 << 20;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

template <typename Item>
using Items = std::unique_ptr<Item[], Free>;

// Uninitialised items that start at a page; large ones ask for huge pages, because writing to
// thousands of places at once is otherwise a TLB miss each.
template <typename Item>
Items<Item> make_items(std::int64_t count) {
  const std::size_t need = static_cast<std::size_t>(count) * sizeof(Item);
  const std::size_t size = (need + kHugePage) / kHugePage * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, size);
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (need >= 2 * kHugePage) madvise(memory, size, MADV_HUGEPAGE);
#endif
  return Items<Item>(static_cast<Item*>(memory));
}

// Collects the items of each bucket in a small line and copies whole lines, so that memory is
// written a cache line at a time. Lines are aligned to the destination.
template <typename Item>
class Mixer {
 public:
  Mixer(Item* items, std::int64_t* cursors, std::int64_t buckets)
      : items_(items),
        cursors_(cursors),
        begins_(cursors, cursors + buckets),
        lines_(make_items<Item>(buckets * kWay)) {}

  void push(std::uint64_t bucket, Item item) {
    const std::int64_t at = cursors_[bucket]++;
    Item* line = lines_.get() + bucket * kWay;
    line[at % kWay] = item;
    if (at % kWay == kWay - 1) write(bucket, at + 1 - kWay, at + 1);
  }

  void flush() {
    for (std::size_t bucket = 0; bucket < begins_.size(); ++bucket) {
      const std::int64_t end = cursors_[bucket];
      if (end % kWay != 0) write(bucket, end - end % kWay, end);
    }
  }

 private:
  static constexpr std::size_t kLine = 64;
  // the fewest items that fill whole cache lines: 16, 8, 16, 4
  static constexpr std::int64_t kWay = kLine / std::gcd(kLine, sizeof(Item));

  void write(std::uint64_t bucket, std::int64_t from, std::int64_t end) {
    const Item* line = lines_.get() + bucket * kWay;
    if (end - from == kWay && from >= begins_[bucket]) {
      std::memcpy(items_ + from, line, kWay * sizeof(Item));
      return;
    }
    const std::int64_t skip = std::max<std::int64_t>(0, begins_[bucket] - from);
    std::copy(line + skip, line + (end - from), items_ + from + skip);
  }

  Item* items_;
  std::int64_t* cursors_;
  std::vector<std::int64_t> begins_;
  Items<Item> lines_;
};

}  // namespace foregather::csc
