// TreeNumbers: gives pairs (tree, vertex) of a minibatch local ids in the order in which they come.
//
// Disjoint trees of one minibatch may hold the same vertex, each for itself, so the table over all
// vertices (relabel.hpp) will not do. This is a hash table with linear probing whose size follows
// the minibatch: 16 bytes for each place, at most half of them taken. An entry carries the number
// of the minibatch that wrote it, so nothing is cleared between minibatches.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "base/random.hpp"
#include "base/types.hpp"
#include "parallel/buffer.hpp"

namespace foregather {

class TreeNumbers {
 public:
  /// Forgets all pairs; trees below `trees` and vertices below `num_nodes` may follow. Throws
  /// InputError if there are more pairs than 64 bits tell apart.
  void begin(std::int64_t num_nodes, std::int64_t trees) {
    constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
    nodes_ = static_cast<std::uint64_t>(num_nodes);
    if (nodes_ > 0 && static_cast<std::uint64_t>(trees) > kMost / nodes_) {
      throw InputError("a minibatch of too many trees; lower the batch size");
    }
    known_ = 0;
    if (++stamp_ == 0) clear();
  }

  /// Makes room for `most` pairs in all; those that are there stay. Throws InputError if they are
  /// too many.
  void make_room(std::int64_t most) {
    if (most >= std::int64_t{1} << 31) {
      throw InputError("a minibatch of more than 2^31 vertices and edges; lower the fan-outs");
    }
    const auto wanted = std::bit_ceil(static_cast<std::size_t>(2 * most + 16));
    if (wanted > size_) grow(wanted);
  }

  [[gnu::always_inline]] void prefetch(std::uint32_t tree, std::int64_t v) const {
    __builtin_prefetch(&table_[home(key(tree, v))], 1);
  }

  /// The local id of vertex v in a tree, which is known() if it was not met. There must be room.
  std::uint32_t insert(std::uint32_t tree, std::int64_t v) {
    const std::uint64_t own = key(tree, v);
    for (std::size_t at = home(own);; at = (at + 1) & (size_ - 1)) {
      Entry& entry = table_[at];
      if (entry.stamp != stamp_) {
        entry = {own, known_, stamp_};
        return known_++;
      }
      if (entry.key == own) return entry.local;
    }
  }

  /// Local ids of the vertices ids[0 .. count) of one tree into `row` (which may be `ids` itself);
  /// those that are new are appended to `node` and `trees`. There must be room for all of them
  /// here, and for one more in the arrays.
  template <typename Id>
  void number(std::uint32_t tree, const Id* ids, std::size_t count, Id* node, std::uint32_t* trees,
              std::uint32_t* row) {
    Entry* table = table_.data();
    const std::uint64_t first = key(tree, 0);
    const std::size_t mask = size_ - 1;
    const std::uint32_t stamp = stamp_;
    const int shift = shift_;
    std::uint32_t known = known_;
    for (std::size_t i = 0; i < count; ++i) {
      const Id v = ids[i];
      const std::uint64_t own = first + static_cast<std::uint64_t>(v);
      auto at = static_cast<std::size_t>((own * kGolden) >> shift);
      while (table[at].stamp == stamp && table[at].key != own) at = (at + 1) & mask;
      // Whether a vertex was met before is a coin flip, so there is no branch (see relabel.hpp).
      const std::uint32_t fresh = table[at].stamp == stamp ? 0 : 1, less = 0u - fresh;
      const std::uint32_t id = (known & less) | (table[at].local & ~less);
      table[at] = {own, id, stamp};
      node[known] = v;  // stays only if fresh
      trees[known] = tree;
      row[i] = id;
      known += fresh;
    }
    known_ = known;
  }

  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;  ///< what find() returns for a pair not met

  /// The local id of vertex v in a tree, or kNone.
  std::uint32_t find(std::uint32_t tree, std::int64_t v) const {
    if (size_ == 0) return kNone;
    const std::uint64_t own = key(tree, v);
    for (std::size_t at = home(own);; at = (at + 1) & (size_ - 1)) {
      const Entry& entry = table_[at];
      if (entry.stamp != stamp_) return kNone;
      if (entry.key == own) return entry.local;
    }
  }

  /// Pairs met since begin().
  std::int64_t known() const { return known_; }
  std::size_t bytes() const { return table_.bytes(); }

 private:
  struct Entry {
    std::uint64_t key;
    std::uint32_t local;
    std::uint32_t stamp;  ///< of the minibatch that wrote it; 0: none did
  };

  std::uint64_t key(std::uint32_t tree, std::int64_t v) const {
    return tree * nodes_ + static_cast<std::uint64_t>(v);
  }
  std::size_t home(std::uint64_t own) const {
    return static_cast<std::size_t>((own * kGolden) >> shift_);
  }
  void clear() {
    if (size_ > 0) std::memset(static_cast<void*>(table_.data()), 0, size_ * sizeof(Entry));
    stamp_ = 1;
  }
  void grow(std::size_t size) {
    Buffer<Entry> before = std::move(table_);
    const std::size_t held = std::exchange(size_, size);
    const std::uint32_t stamp = stamp_;
    table_ = Buffer<Entry>();
    table_.reserve_exactly(size);
    shift_ = 64 - std::countr_zero(size);
    clear();
    for (std::size_t i = 0; i < held; ++i) {
      if (before[i].stamp != stamp) continue;
      std::size_t at = home(before[i].key);
      while (table_[at].stamp == stamp_) at = (at + 1) & (size_ - 1);
      table_[at] = {before[i].key, before[i].local, stamp_};
    }
  }

  Buffer<Entry> table_;
  std::size_t size_ = 0;  ///< places, a power of two
  int shift_ = 63;
  std::uint64_t nodes_ = 0;
  std::uint32_t known_ = 0, stamp_ = 0;
};

}  // namespace foregather
