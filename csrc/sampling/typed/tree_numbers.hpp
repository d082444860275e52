// TreeNumbers: gives pairs (tree, vertex) of a minibatch local ids in the order in which they come.
//
// Disjoint trees of one minibatch may hold the same vertex, each for itself, so the table over all
// vertices (relabel.hpp) will not do. This is a hash table with linear probing whose size follows
// the minibatch, at most five eighths full. The entry of a pair is `base + local id`, and base
// moves past all ids of the minibatch before, so nothing is cleared between minibatches.
//
// A place has 8 bytes as long as the pairs that can be are fewer than 2^32, and 16 if they are not:
// what numbering takes is mostly the way to its places, so the table should be small.
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

/// The table for keys of one width.
template <typename Key>
class PairTable {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

  /// Forgets all keys.
  void begin() {
    base_ += known_;
    known_ = 0;
    if (base_ >= kLimit) clear();
  }
  /// Makes room for `most` keys in all; those that are there stay.
  void make_room(std::int64_t most) {
    const auto wanted = static_cast<std::size_t>(most + (most >> 1) + (most >> 3) + 16);
    if (wanted > size_) grow(std::bit_ceil(wanted));
  }
  [[gnu::always_inline]] void prefetch(Key key) const { __builtin_prefetch(&table_[home(key)], 1); }
  /// The number of a key, which is known() if it was not met. There must be room.
  std::uint32_t insert(Key key) {
    Entry& entry = table_[place(key)];
    if (entry.number < base_) entry = {key, base_ + known_++};
    return entry.number - base_;
  }
  /// The number of a key, or kNone.
  std::uint32_t find(Key key) const {
    if (size_ == 0) return kNone;
    const Entry& entry = table_[place(key)];
    return entry.number < base_ ? kNone : entry.number - base_;
  }
  /// See TreeNumbers::number; `first` is the key of vertex 0.
  template <typename Id>
  void number(Key first, std::uint32_t tree, const Id* ids, std::size_t count, Id* node,
              std::uint32_t* trees, std::uint32_t* row) {
    Entry* table = table_.data();
    const std::size_t mask = size_ - 1;
    const std::uint32_t base = base_;
    const int shift = shift_;
    std::uint32_t known = known_;
    for (std::size_t i = 0; i < count; ++i) {
      const Id v = ids[i];
      const auto own = static_cast<Key>(first + static_cast<Key>(v));
      auto at = static_cast<std::size_t>((own * kGolden) >> shift);
      while (table[at].number >= base && table[at].key != own) at = (at + 1) & mask;
      // Whether a vertex was met before is a coin flip, so there is no branch (see relabel.hpp).
      const std::uint32_t entry = table[at].number;
      const std::uint32_t fresh = entry < base ? 1 : 0, less = 0u - fresh;
      const std::uint32_t id = (known & less) | ((entry - base) & ~less);
      table[at] = {own, base + id};
      node[known] = v;  // stays only if fresh
      trees[known] = tree;
      row[i] = id;
      known += fresh;
    }
    known_ = known;
  }

  std::int64_t known() const { return known_; }
  std::size_t bytes() const { return table_.bytes(); }

 private:
  static constexpr std::uint32_t kLimit = std::uint32_t{1} << 31;
  struct Entry {
    Key key;
    std::uint32_t number;  ///< of an earlier minibatch: below base_; never written: 0
  };

  std::size_t home(Key key) const { return static_cast<std::size_t>((key * kGolden) >> shift_); }
  std::size_t place(Key key) const {
    std::size_t at = home(key);
    while (table_[at].number >= base_ && table_[at].key != key) at = (at + 1) & (size_ - 1);
    return at;
  }
  void clear() {
    if (size_ > 0) std::memset(static_cast<void*>(table_.data()), 0, size_ * sizeof(Entry));
    base_ = 1;
  }
  void grow(std::size_t size) {
    Buffer<Entry> before = std::move(table_);
    const std::size_t held = std::exchange(size_, size);
    const std::uint32_t base = base_;
    table_ = Buffer<Entry>();
    table_.reserve_exactly(size);
    shift_ = 64 - std::countr_zero(size);
    clear();
    for (std::size_t i = 0; i < held; ++i) {
      if (before[i].number < base) continue;
      table_[place(before[i].key)] = {before[i].key, before[i].number - base + base_};
    }
  }

  Buffer<Entry> table_;
  std::size_t size_ = 0;  ///< places, a power of two
  int shift_ = 63;
  std::uint32_t known_ = 0;
  std::uint32_t base_ = 1;  ///< entry of number 0
};

// A cache line of its own, as Relabel has.
class alignas(64) TreeNumbers {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;  ///< what find() returns for a pair not met

  /// Forgets all pairs; trees below `trees` and vertices below `num_nodes` may follow. Throws
  /// InputError if there are more pairs than 64 bits tell apart.
  void begin(std::int64_t num_nodes, std::int64_t trees) {
    constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
    constexpr std::uint64_t kFew = std::numeric_limits<std::uint32_t>::max();
    nodes_ = static_cast<std::uint64_t>(num_nodes);
    if (nodes_ > 0 && static_cast<std::uint64_t>(trees) > kMost / nodes_) {
      throw InputError("a minibatch of too many trees; lower the batch size");
    }
    narrow_ = nodes_ == 0 || static_cast<std::uint64_t>(trees) <= kFew / nodes_;
    few_.begin();
    many_.begin();
  }

  /// Makes room for `most` pairs in all; those that are there stay. Throws InputError if they are
  /// too many.
  void make_room(std::int64_t most) {
    if (most >= std::int64_t{1} << 31) {
      throw InputError("a minibatch of more than 2^31 vertices and edges; lower the fan-outs");
    }
    if (narrow_) return few_.make_room(most);
    many_.make_room(most);
  }

  [[gnu::always_inline]] void prefetch(std::uint32_t tree, std::int64_t v) const {
    if (narrow_) return few_.prefetch(static_cast<std::uint32_t>(key(tree, v)));
    many_.prefetch(key(tree, v));
  }

  /// The local id of vertex v in a tree, which is known() if it was not met. There must be room.
  std::uint32_t insert(std::uint32_t tree, std::int64_t v) {
    if (narrow_) return few_.insert(static_cast<std::uint32_t>(key(tree, v)));
    return many_.insert(key(tree, v));
  }

  /// Local ids of the vertices ids[0 .. count) of one tree into `row` (which may be `ids` itself);
  /// those that are new are appended to `node` and `trees`. There must be room for all of them
  /// here, and for one more in the arrays.
  template <typename Id>
  void number(std::uint32_t tree, const Id* ids, std::size_t count, Id* node, std::uint32_t* trees,
              std::uint32_t* row) {
    const std::uint64_t first = key(tree, 0);
    if (narrow_) {
      return few_.number(static_cast<std::uint32_t>(first), tree, ids, count, node, trees, row);
    }
    many_.number(first, tree, ids, count, node, trees, row);
  }

  /// The local id of vertex v in a tree, or kNone.
  std::uint32_t find(std::uint32_t tree, std::int64_t v) const {
    if (narrow_) return few_.find(static_cast<std::uint32_t>(key(tree, v)));
    return many_.find(key(tree, v));
  }

  /// Pairs met since begin().
  std::int64_t known() const { return narrow_ ? few_.known() : many_.known(); }
  std::size_t bytes() const { return few_.bytes() + many_.bytes(); }

 private:
  std::uint64_t key(std::uint32_t tree, std::int64_t v) const {
    return tree * nodes_ + static_cast<std::uint64_t>(v);
  }

  std::uint64_t nodes_ = 0;
  bool narrow_ = true;
  PairTable<std::uint32_t> few_;
  PairTable<std::uint64_t> many_;
};

}  // namespace foregather
