// RowTable: by row, its word, or that it is in the cache; by slot, the row and its word.
//
// An entry is the word of its row (row_word.hpp), or stands for a row in the cache, whose word is
// kept with the slot. So no row in the cache looks worth reading, and a walk over the entries of a
// block needs no second look.
//
// A wide table takes 4 bytes per row and 8 per slot: the entry of a row in the cache has the slot
// beside the mark. A narrow one takes 2 per row and 12 per slot: its entries have no room for a
// slot, which is looked up instead (slot_index.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "parallel/buffer.hpp"
#include "plan/plan.hpp"
#include "plan/row_word.hpp"
#include "plan/slot_index.hpp"

namespace foregather {

template <typename Word>
class RowTable {
 public:
  using Entry = typename Word::Entry;
  static constexpr bool kIndexed = !std::is_same_v<Entry, std::uint32_t>;

  RowTable(std::size_t rows, std::size_t slots) : num_rows_(rows), num_slots_(slots) {
    entries_.reserve_exactly(rows);
    words_.reserve_exactly(slots);
    rows_.reserve_exactly(slots);
    std::fill_n(entries_.data(), rows, static_cast<Entry>(Word::kUnseen));
    std::fill_n(rows_.data(), slots, kNone);
    if constexpr (kIndexed) index_.reset(slots);
  }

  /// The word of a row, or at least kHeld for rows in the cache.
  std::uint32_t entry(std::size_t row) const { return entries_[row]; }
  const Entry* address(std::size_t row) const { return &entries_[row]; }
  /// The slot of a row in the cache.
  std::uint32_t slot(std::uint32_t row) const {
    if constexpr (kIndexed) return index_.find(row, rows_.data());
    return entries_[row] - Word::kHeld;
  }
  /// The word of any row.
  Entry& word(std::uint32_t row) {
    Entry& entry = entries_[row];
    return entry >= Word::kHeld ? words_[slot(row)] : entry;
  }
  /// The word of the row in a slot, which has one.
  Entry& slot_word(std::size_t slot) { return words_[slot]; }
  /// By slot: the row, or kNone.
  std::span<const std::uint32_t> rows() const { return {rows_.data(), num_slots_}; }

  /// A row that was not in the cache gets a slot without a row; returns its word.
  std::uint32_t hold(std::uint32_t row, std::uint32_t slot) {
    const Entry word = words_[slot] = entries_[row];
    rows_[slot] = row;
    if constexpr (kIndexed) {
      entries_[row] = static_cast<Entry>(Word::kHeld);
      index_.insert(slot, rows_.data());
    } else {
      entries_[row] = Word::kHeld | slot;
    }
    return word;
  }
  /// The row of a slot leaves the cache.
  void release(std::uint32_t slot) {
    entries_[rows_[slot]] = words_[slot];
    if constexpr (kIndexed) index_.erase(slot, rows_.data());
    rows_[slot] = kNone;
  }

  /// Forgets all next uses; how often rows were used stays.
  void forget_steps() {
    constexpr auto never = static_cast<Entry>(Word::kUnseen & ~kRankMask);
    for (std::size_t row = 0; row < num_rows_; ++row) {
      const Entry entry = entries_[row];
      // a loop without a branch, as it runs after every few plans where words are narrow
      entries_[row] =
          entry >= Word::kHeld ? entry : static_cast<Entry>((entry & kRankMask) | never);
    }
    for (std::size_t slot = 0; slot < num_slots_; ++slot) {
      if (rows_[slot] != kNone)
        words_[slot] = static_cast<Entry>((words_[slot] & kRankMask) | never);
    }
  }

  /// One number per row, 0 (rare) to 4095 (popular).
  void set_popularity(std::span<const std::uint16_t> popularity) {
    for (std::uint32_t row = 0; row < popularity.size(); ++row) {
      const std::uint32_t rank = kRankMask - std::min<std::uint32_t>(popularity[row], kRankMask);
      Entry& now = word(row);
      now = static_cast<Entry>((now & ~kRankMask) | rank);
    }
  }

  static std::size_t bytes(std::size_t rows, std::size_t slots) {
    std::size_t total = Buffer<Entry>::bytes_for(rows) + Buffer<Entry>::bytes_for(slots);
    total += Buffer<std::uint32_t>::bytes_for(slots);
    return total + (kIndexed ? SlotIndex::bytes(slots) : 0);
  }

 private:
  std::size_t num_rows_, num_slots_;
  Buffer<Entry> entries_;       ///< by row
  Buffer<Entry> words_;         ///< by slot
  Buffer<std::uint32_t> rows_;  ///< by slot
  SlotIndex index_;             ///< empty where entries say the slot
};

}  // namespace foregather
