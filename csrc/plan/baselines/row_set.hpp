// RowSet: which rows of a file are in a batch, a bit per row; emptied through the batch itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/bounds/bound.hpp"

namespace foregather {

class RowSet {
 public:
  /// Makes room for rows below this; none is in.
  void reset(std::int64_t rows) { words_.assign(bytes(rows) / 8, 0); }

  /// Puts in a row; returns whether it was not in.
  bool add(std::uint32_t row) {
    const bool fresh = !has(row);
    words_[row >> 6] |= bit(row);
    return fresh;
  }
  bool has(std::uint32_t row) const { return (words_[row >> 6] & bit(row)) != 0; }
  /// Takes out rows, whether they are in or not.
  void take_out(std::span<const std::uint32_t> rows) {
    for (std::uint32_t row : rows) words_[row >> 6] &= ~bit(row);
  }

  static std::size_t bytes(std::int64_t rows) {
    return static_cast<std::size_t>(rows + 63) / 64 * 8;
  }

 private:
  static std::uint64_t bit(std::uint32_t row) { return std::uint64_t{1} << (row & 63); }

  std::vector<std::uint64_t> words_;
};

/// Throws InputError unless every batch has distinct rows below num_rows. `none` is scratch: an
/// empty set, which is left empty.
inline void check_batches(const Geometry& geometry, Batches batches, RowSet& none) {
  for (std::size_t t = 0; t < batches.size(); ++t) {
    check_rows(geometry, batches[t]);
    for (std::uint32_t row : batches[t]) {
      if (none.add(row)) continue;
      none.take_out(batches[t]);
      throw InputError("batch " + std::to_string(t) + " asks for row " + std::to_string(row) +
                       " twice; expected distinct rows");
    }
    none.take_out(batches[t]);
  }
}

}  // namespace foregather
