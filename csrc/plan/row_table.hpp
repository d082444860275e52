// RowTable: by row, its word, or where in the cache it is; 4 bytes per row and 4 per slot.
//
// An entry is the word of its row (row_word.hpp), or, with the top bit set, the slot of a row in
// the cache, whose word is kept with the slot. So no row in the cache looks worth reading, and a
// walk over the entries of a block needs no second look.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "parallel/buffer.hpp"
#include "plan/row_word.hpp"

namespace foregather {

class RowTable {
 public:
  static constexpr std::uint32_t kHeld = kUnseen + 1;  ///< flag of an entry: the rest is a slot

  RowTable(std::size_t rows, std::size_t slots) : num_rows_(rows) {
    entries_.reserve_exactly(rows);
    words_.reserve_exactly(slots);
    std::fill_n(entries_.data(), rows, kUnseen);
  }

  /// The word of a row, or its slot + kHeld: at least kHeld for rows in the cache.
  std::uint32_t entry(std::size_t row) const { return entries_[row]; }
  const std::uint32_t* address(std::size_t row) const { return &entries_[row]; }
  /// The word of any row.
  std::uint32_t& word(std::size_t row) {
    std::uint32_t& entry = entries_[row];
    return entry >= kHeld ? words_[entry - kHeld] : entry;
  }
  /// The word of the row in a slot, which has one.
  std::uint32_t slot_word(std::size_t slot) const { return words_[slot]; }

  /// A row that was not in the cache gets a slot; returns its word.
  std::uint32_t hold(std::uint32_t row, std::uint32_t slot) {
    const std::uint32_t word = words_[slot] = entries_[row];
    entries_[row] = kHeld | slot;
    return word;
  }
  /// The row of a slot leaves the cache.
  void release(std::uint32_t row, std::size_t slot) { entries_[row] = words_[slot]; }

  /// Forgets all next uses; how often rows were used stays.
  void forget_steps() {
    for (std::size_t row = 0; row < num_rows_; ++row) word(row) |= kUnseen & ~kRankMask;
  }

  /// One number per row, 0 (rare) to 4095 (popular).
  void set_popularity(std::span<const std::uint16_t> popularity) {
    for (std::size_t row = 0; row < popularity.size(); ++row) {
      const std::uint32_t rank = kRankMask - std::min<std::uint32_t>(popularity[row], kRankMask);
      std::uint32_t& now = word(row);
      now = (now & ~kRankMask) | rank;
    }
  }

  static std::size_t bytes(std::size_t rows, std::size_t slots) {
    using Words = Buffer<std::uint32_t>;
    return Words::bytes_for(rows) + Words::bytes_for(slots);
  }

 private:
  std::size_t num_rows_;
  Buffer<std::uint32_t> entries_;  ///< by row
  Buffer<std::uint32_t> words_;    ///< by slot
};

}  // namespace foregather
