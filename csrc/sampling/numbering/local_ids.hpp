// LocalIds: gives the vertices of a minibatch local ids, in memory of the minibatch's size. Private
// to the disk sampler.
//
// A hash table with open addressing. The in-memory sampler has a table over all vertices, which is
// faster; where the topology does not fit, such a table for each thread would not either.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/random.hpp"
#include "parallel/buffer.hpp"

namespace foregather {

template <typename Id>
class LocalIds {
 public:
  /// Forgets everything; up to `most` vertices may follow.
  void begin(std::int64_t most) {
    const std::size_t size = places(most);
    table_.reserve_exactly(size);
    shift_ = 64 - std::countr_zero(size);
    mask_ = size - 1;
    std::memset(static_cast<void*>(table_.data()), 0xFF, size * sizeof(Entry));
  }

  void prefetch(Id v) const { __builtin_prefetch(&table_[first(v)], 1); }

  /// The local id of v: `next` if it was not met before.
  std::uint32_t insert(Id v, std::uint32_t next) {
    for (std::size_t at = first(v);; at = (at + 1) & mask_) {
      Entry& entry = table_[at];
      if (entry.local == kNone) {
        entry = {v, next};
        return next;
      }
      if (entry.node == v) return entry.local;
    }
  }

  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  /// The local id of v, or kNone.
  std::uint32_t find(Id v) const {
    for (std::size_t at = first(v);; at = (at + 1) & mask_) {
      const Entry& entry = table_[at];
      if (entry.local == kNone || entry.node == v) return entry.local;
    }
  }

  void release() { table_ = Buffer<Entry>(); }
  std::size_t bytes() const { return table_.bytes(); }
  /// Bytes of a table for `most` vertices.
  static std::size_t bytes_for(std::int64_t most) { return Buffer<Entry>::bytes_for(places(most)); }

 private:
  struct Entry {
    Id node;
    std::uint32_t local;
  };

  // a power of two, at most three quarters full
  static std::size_t places(std::int64_t most) {
    return std::bit_ceil(static_cast<std::size_t>(most + most / 3 + 16));
  }
  std::size_t first(Id v) const {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(v) * kGolden) >> shift_);
  }

  Buffer<Entry> table_;
  int shift_ = 63;
  std::size_t mask_ = 0;
};

}  // namespace foregather
