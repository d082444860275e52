// NameTable: the distinct names of a stream, each once, in a budget of bytes.
//
// An open-addressing table from the key of a name (its XXH64) to its bytes, which lie in blocks
// that never move. A key that is met again is compared with the bytes under it, so two names with
// one key are found and refused, never merged.
//
// The place of a key is its leading bits, and a taken place sends it further on, never back to the
// start. Names between two empty places therefore have the keys of those places: the table is
// sorted by sorting each such stretch, and `next` hands the names out in ascending order of key.
//
// The table never grows over its budget: it takes what it can and says how much that was. The
// owner then hands out what is held, empties the table and goes on. Names chosen so that their
// keys share their leading bits end the table early (kMostSteps) instead of slowing it down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace foregather {

class NameTable {
 public:
  /// `budget` is a limit for slots and text together; a first small table is always made.
  explicit NameTable(std::size_t budget);
  NameTable(const NameTable&) = delete;
  NameTable& operator=(const NameTable&) = delete;

  /// Adds string i = data[offsets[i] .. offsets[i + 1]) with keys[i], from i = `first` on, and
  /// returns the number of the first string that was not taken: all, or fewer where the budget is
  /// used up. An empty table takes at least one.
  /// Throws InputError where a string leaves its buffer or two different strings have one key.
  std::size_t add(std::span<const std::uint8_t> data, std::span<const std::int64_t> offsets,
                  std::span<const std::uint64_t> keys, std::size_t first);

  std::size_t size() const { return count_; }
  std::size_t bytes() const { return slots_.size() * sizeof(Slot) + text_bytes_; }

  struct Taken {
    std::size_t names = 0;
    std::size_t bytes = 0;
  };

  /// The next names in ascending order of key, as many as both arrays hold: keys[i] and lengths[i],
  /// and their bytes back to back in `text`. A name longer than an empty `text` takes nothing; ask
  /// `next_length` first. No name can be added after the first call, until `clear`.
  Taken next(std::span<std::uint64_t> keys, std::span<std::int64_t> lengths,
             std::span<std::uint8_t> text);

  /// Length of the name that `next` starts with, 0 after the last.
  std::size_t next_length();

  /// Forgets every name and frees the memory.
  void clear();

 private:
  struct Slot {
    std::uint64_t key;
    const std::uint8_t* record;  ///< its length (4 bytes) and its bytes; null: empty
  };

  std::size_t home(std::uint64_t key) const { return static_cast<std::size_t>(key >> shift_); }
  Slot* find(std::uint64_t key);
  const std::uint8_t* keep(const std::uint8_t* text, std::size_t length);
  bool grow();
  void rebuild(int bits);
  void sort();
  void skip_empty();

  std::size_t budget_;
  int shift_ = 64;           ///< 64 - log2 of the number of homes
  std::vector<Slot> slots_;  ///< homes, and a margin after the last
  std::size_t count_ = 0;
  std::vector<std::unique_ptr<std::uint8_t[]>> blocks_;
  std::uint8_t* free_ = nullptr;  ///< in the last block
  std::size_t room_ = 0;          ///< bytes left there
  std::size_t text_bytes_ = 0;    ///< of all blocks
  bool sorted_ = false;
  std::size_t at_ = 0;  ///< next slot to hand out
};

}  // namespace foregather
