// Piece sums: adds over sparse columns without a table of all vertices.
//
// Entries are dealt into pieces, ranges of consecutive vertices whose sums fit into the second
// cache; then one piece after the other is added up in a small table and handed out. Dealing writes
// a few streams and adding stays in the cache, where a hash or a table of all vertices would miss
// it at every entry. Sums are integers, so the order in which entries come does not matter.
//
// Memory: 8 bytes per entry (16 if each has its own number), and the table, 256 KiB up to 8 million
// vertices, then 1 / 32 byte per vertex.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "parallel/buffer.hpp"

namespace foregather::detail {

template <typename Id>
class PieceSums {
 public:
  /// Forgets all; ids are below `nodes`, about `expected` entries come. `weighted`: with add(),
  /// else with add_row().
  void start(std::int64_t nodes, std::int64_t expected, bool weighted) {
    const auto above = static_cast<std::uint64_t>(std::max<std::int64_t>(nodes, 1) - 1);
    const int bits = static_cast<int>(std::bit_width(above));
    nodes_ = static_cast<std::uint64_t>(nodes);
    weighted_ = weighted;
    shift_ = std::max(kTableBits, bits - kMostPieceBits);
    pieces_.resize(std::max(pieces_.size(), (above >> shift_) + 1));
    used_ = (above >> shift_) + 1;
    const auto share = static_cast<std::size_t>(expected) / used_;
    for (std::size_t piece = 0; piece < used_; ++piece) {
      pieces_[piece].size = 0;
      pieces_[piece].grow((share + share / 4 + 64) * (weighted ? 2 : 1));
    }
    const std::size_t width = std::size_t{1} << shift_;
    if (width > width_) {
      table_.reserve(width);
      std::memset(table_.data(), 0, width * sizeof(std::int64_t));
      width_ = width;
      met_.reserve(width + 1);
    }
  }

  /// Entries [first, last) of row `row`. Throws InputError for an id that is not a vertex.
  void add_row(const Id* first, const Id* last, std::uint32_t row) {
    const std::uint64_t mask = (std::uint64_t{1} << shift_) - 1, high = std::uint64_t{row} << 32;
    Piece* pieces = pieces_.data();
    for (; first != last; ++first) {
      const auto v = static_cast<std::uint64_t>(*first);
      if (v >= nodes_) refuse();
      Piece& piece = pieces[v >> shift_];
      if (piece.size == piece.room) piece.grow(2 * piece.room);
      piece.data[piece.size++] = high | (v & mask);
    }
  }

  /// One entry with a number of its own.
  void add(Id id, std::int64_t units) {
    const auto v = static_cast<std::uint64_t>(id);
    if (v >= nodes_) refuse();
    Piece& piece = pieces_[v >> shift_];
    if (piece.size + 2 > piece.room) piece.grow(2 * piece.room + 2);
    piece.data[piece.size++] = v & ((std::uint64_t{1} << shift_) - 1);
    piece.data[piece.size++] = static_cast<std::uint64_t>(units);
  }

  /// take(vertex, sum) for every vertex with a sum above 0; an entry of row r counts `units`[r].
  template <typename Take>
  void visit(std::span<const std::int64_t> units, const Take& take) {
    std::int64_t* table = table_.data();
    std::uint32_t* met = met_.data();
    for (std::size_t piece = 0; piece < used_; ++piece) {
      const std::size_t count =
          weighted_
              ? add_up(pieces_[piece], 2,
                       [](const std::uint64_t* item) { return static_cast<std::int64_t>(item[1]); })
              : add_up(pieces_[piece], 1,
                       [&](const std::uint64_t* item) { return units[*item >> 32]; });
      const std::uint64_t base = static_cast<std::uint64_t>(piece) << shift_;
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t sum = table[met[i]];
        table[met[i]] = 0;
        take(base | met[i], sum);
      }
    }
  }

  std::size_t bytes() const {
    std::size_t total = table_.bytes() + met_.bytes();
    for (const Piece& piece : pieces_) total += piece.memory.bytes();
    return total;
  }

 private:
  static constexpr int kTableBits = 15;     // 256 KiB of sums
  static constexpr int kMostPieceBits = 8;  // streams that are written at a time

  struct Piece {
    std::uint64_t* data = nullptr;
    std::size_t size = 0, room = 0;
    Buffer<std::uint64_t> memory;
    void grow(std::size_t wanted) {
      memory.reserve(wanted, size);
      data = memory.data();
      room = memory.capacity();
    }
  };

  [[noreturn]] static void refuse() { throw InputError("indices hold an id that is not a node"); }

  // Adds a piece into the table; returns how many vertices met_ then lists.
  template <typename UnitsOf>
  std::size_t add_up(const Piece& piece, std::size_t step, const UnitsOf& units_of) {
    std::int64_t* table = table_.data();
    std::uint32_t* met = met_.data();
    std::size_t count = 0;
    for (std::size_t i = 0; i < piece.size; i += step) {
      const auto v = static_cast<std::uint32_t>(piece.data[i]);
      const std::int64_t own = units_of(&piece.data[i]), before = table[v];
      met[count] = v;  // stays only if new; without a branch, as no predictor learns it
      count += static_cast<std::size_t>(before == 0) & static_cast<std::size_t>(own > 0);
      table[v] = before + own;
    }
    return count;
  }

  std::uint64_t nodes_ = 0;
  bool weighted_ = false;
  int shift_ = 0;
  std::size_t used_ = 0, width_ = 0;
  std::vector<Piece> pieces_;
  Buffer<std::int64_t> table_;  ///< zero between pieces
  Buffer<std::uint32_t> met_;
};

}  // namespace foregather::detail
