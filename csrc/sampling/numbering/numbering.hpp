// Numbering: gives vertices the numbers 0, 1, 2, ... in the order in which they are met.
//
// One structure serves relabelling (the number is the local id) and sums over sparse columns (the
// number is the index of the sum). It is a hash table with linear probing: memory follows the
// vertices that were met (at most 4 slots of 8 or 16 bytes each, and the id itself), never the size
// of the graph. The numbers depend only on the order of the calls.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"

namespace foregather {

/// A numbering of vertex ids; Id is std::uint32_t or std::int64_t.
template <typename Id>
class Numbering {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;  ///< the number of no vertex

  Numbering() { resize(6); }

  /// The number of `id`, the next free one if it was not met before.
  std::uint32_t number(Id id) {
    std::size_t at = home(id);
    while (slots_[at].number != kNone) {
      if (slots_[at].id == id) return slots_[at].number;
      at = (at + 1) & mask_;
    }
    const auto fresh = static_cast<std::uint32_t>(ids_.size());
    slots_[at] = {id, fresh};
    ids_.push_back(id);
    if (2 * ids_.size() > slots_.size()) resize(bits_ + 1);
    return fresh;
  }

  /// The number of `id`, or kNone.
  std::uint32_t find(Id id) const {
    std::size_t at = home(id);
    while (slots_[at].number != kNone && slots_[at].id != id) at = (at + 1) & mask_;
    return slots_[at].number;
  }

  /// Asks the processor to have `id` near; worth it a few calls ahead.
  void prefetch(Id id) const { __builtin_prefetch(&slots_[home(id)]); }

  /// The ids in the order of their numbers.
  std::span<const Id> ids() const { return ids_; }

  std::size_t size() const { return ids_.size(); }

  /// Forgets all ids and makes room for `expected` (more are welcome, but make the table grow). The
  /// table is made smaller where it is far too large, so that one large batch does not slow down
  /// all that follow.
  void clear(std::size_t expected = 32) {
    const int wanted = std::bit_width(2 * expected | 63);
    ids_.clear();
    if (wanted > bits_ || wanted + 2 < bits_) {
      resize(wanted);
    } else {
      for (Slot& slot : slots_) slot.number = kNone;
    }
  }

 private:
  struct Slot {
    Id id;
    std::uint32_t number;
  };

  std::size_t home(Id id) const {
    return static_cast<std::size_t>((static_cast<std::uint64_t>(id) * kGolden) >> (64 - bits_));
  }

  void resize(int bits) {
    bits_ = bits;
    mask_ = (std::size_t{1} << bits) - 1;
    slots_.assign(mask_ + 1, Slot{0, kNone});
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      std::size_t at = home(ids_[i]);
      while (slots_[at].number != kNone) at = (at + 1) & mask_;
      slots_[at] = {ids_[i], static_cast<std::uint32_t>(i)};
    }
  }

  std::vector<Slot> slots_;
  std::vector<Id> ids_;
  std::size_t mask_ = 0;
  int bits_ = 0;
};

}  // namespace foregather
