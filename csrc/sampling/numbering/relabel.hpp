// Relabel: gives the vertices of a minibatch local ids in the order in which they come.
//
// One table of 4 bytes for each vertex of the graph, never cleared between minibatches: the entry
// of a vertex is `base + local id`, and base moves past all ids of the minibatch before. So an
// entry below base is from an earlier minibatch and means "not met". The table is cleared only
// when base has used up half of the 32 bits.
//
// A hash table of the minibatch's size instead (8 bytes per place, at most half full, the same kind
// of stamps) is a fifth as large for 10M vertices and half a million of them in a minibatch, and
// yet took 1.2 times as long there, perhaps for its branches (is the place another vertex's?).
#pragma once

#include <cstdint>
#include <cstring>

#include "base/types.hpp"
#include "parallel/buffer.hpp"

namespace foregather {

// It has a cache line of its own, since what number() writes moves with every few edges. The
// threads of a team (team_layer.hpp, typed_team.hpp) read what lies beside it, or number another
// type there; in one line, each such write would take it away from the other core. (Where the heap
// had put them into one, two threads on a minibatch of 750,000 edges gained 1.72 over one, and
// 1.2 on cores without a common cache; now 2.05.)
class alignas(64) Relabel {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;  ///< what find() returns for a vertex not met

  /// Forgets all vertices; ids from 0 to num_nodes - 1 may follow.
  void begin(std::int64_t num_nodes) {
    const auto size = static_cast<std::size_t>(num_nodes);
    base_ += known_;
    known_ = 0;
    if (size_ < size || base_ >= kLimit) {
      table_.reserve(size);
      size_ = table_.capacity();
      if (size_ > 0) std::memset(table_.data(), 0, size_ * sizeof(std::uint32_t));
      base_ = 1;
    }
  }

  /// The local id of v, which is the next one if v was not met. The caller has checked v.
  std::uint32_t insert(std::int64_t v) {
    std::uint32_t& entry = table_[static_cast<std::size_t>(v)];
    if (entry < base_) {
      if (known_ >= kLimit) throw InputError("a minibatch of more than 2^31 vertices");
      entry = base_ + known_++;
    }
    return entry - base_;
  }

  /// Local ids of ids[0 .. count), which the caller has checked, into `row` (which may be `ids`
  /// itself); those that are new are appended to `node`. There must be room for all of them, and
  /// one more, in `node`; require_room() says whether they fit the table.
  template <typename Id>
  void number(const Id* ids, std::size_t count, Id* node, std::uint32_t* row) {
    std::uint32_t* table = table_.data();
    const std::uint32_t base = base_;
    std::uint32_t known = known_;
    for (std::size_t i = 0; i < count; ++i) {
      // Whether a vertex was met before is a coin flip no predictor learns, so there is no branch,
      // and the choice is written with a mask, which compilers do not turn into one.
      const Id v = ids[i];
      const std::uint32_t entry = table[v];
      const std::uint32_t fresh = entry < base ? 1 : 0, mask = 0u - fresh;
      const std::uint32_t id = (known & mask) | ((entry - base) & ~mask);
      node[known] = v;  // stays only if fresh
      table[v] = base + id;
      row[i] = id;
      known += fresh;
    }
    known_ = known;
  }

  /// Throws InputError if `most` vertices in one minibatch are too many.
  void require_room(std::int64_t most) const {
    if (most >= std::int64_t{kLimit}) {
      throw InputError("a minibatch of more than 2^31 vertices and edges; lower the fan-outs");
    }
  }

  /// The local id of v, or kNone.
  std::uint32_t find(std::int64_t v) const {
    const std::uint32_t entry = table_[static_cast<std::size_t>(v)];
    return entry < base_ ? kNone : entry - base_;
  }

  [[gnu::always_inline]] void prefetch(std::int64_t v) const {
    __builtin_prefetch(&table_[static_cast<std::size_t>(v)], 1);
  }

  /// Vertices met since begin().
  std::int64_t known() const { return known_; }
  std::size_t bytes() const { return table_.bytes(); }

 private:
  static constexpr std::uint32_t kLimit = std::uint32_t{1} << 31;
  Buffer<std::uint32_t> table_;
  std::size_t size_ = 0;     ///< entries that have a value
  std::uint32_t base_ = 1;   ///< entry of local id 0; an entry of 0 is of no minibatch
  std::uint32_t known_ = 0;  ///< local ids given
};

}  // namespace foregather
