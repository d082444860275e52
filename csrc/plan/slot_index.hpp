// SlotIndex: finds the slot of a row, in 6 bytes per slot.
//
// A hash table with open addressing. It holds slots only: which row lies in one is looked up in the
// table by slot, which every call is given. Rows are spread over the places in the order of their
// hashes; taking one out moves up those behind it, so that no marks are left and nothing is ever
// built anew.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "parallel/buffer.hpp"
#include "plan/plan.hpp"

namespace foregather {

class SlotIndex {
 public:
  /// Makes room for this many slots, none of which is in.
  void reset(std::size_t slots) {
    places_ = places(slots);
    table_.reserve_exactly(places_);
    std::fill_n(table_.data(), places_, kNone);
  }

  /// The slot of a row that is in.
  std::uint32_t find(std::uint32_t row, const std::uint32_t* row_of) const {
    return table_[place(row, row_of)];
  }
  /// Puts in a slot, whose row is in no other.
  void insert(std::uint32_t slot, const std::uint32_t* row_of) {
    std::size_t at = home(row_of[slot]);
    while (table_[at] != kNone) at = after(at);
    table_[at] = slot;
  }
  /// Takes out a slot that is in.
  void erase(std::uint32_t slot, const std::uint32_t* row_of) {
    std::size_t hole = place(row_of[slot], row_of);
    for (std::size_t at = after(hole); table_[at] != kNone; at = after(at)) {
      // moves up unless that would put it before its home: distances are counted backwards from it
      const std::size_t first = home(row_of[table_[at]]);
      if (distance(first, at) < distance(hole, at)) continue;
      table_[hole] = table_[at];
      hole = at;
    }
    table_[hole] = kNone;
  }

  static std::size_t bytes(std::size_t slots) {
    return Buffer<std::uint32_t>::bytes_for(places(slots));
  }

 private:
  // a third stays free, and one place at least: it ends every search
  static std::size_t places(std::size_t slots) { return slots + slots / 2 + 1; }

  std::size_t home(std::uint32_t row) const {
    const std::uint32_t hash = row * 2654435769u;  // 2^32 / the golden ratio
    return static_cast<std::size_t>((static_cast<std::uint64_t>(hash) * places_) >> 32);
  }
  std::size_t after(std::size_t at) const { return at + 1 == places_ ? 0 : at + 1; }
  std::size_t distance(std::size_t from, std::size_t to) const {
    return to >= from ? to - from : to + places_ - from;
  }
  std::size_t place(std::uint32_t row, const std::uint32_t* row_of) const {
    std::size_t at = home(row);
    while (row_of[table_[at]] != row) at = after(at);
    return at;
  }

  Buffer<std::uint32_t> table_;
  std::size_t places_ = 0;
};

}  // namespace foregather
