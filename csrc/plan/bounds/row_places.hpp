// RowPlaces: gives each distinct row of a bulk a place, in 6 bytes for each of its accesses.
//
// Tables by place are as long as the bulk and not as the file. A hash table with open addressing,
// of which a third stays free.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "parallel/buffer.hpp"
#include "plan/plan.hpp"

namespace foregather {

class RowPlaces {
 public:
  /// Makes room for this many distinct rows; none has a place.
  explicit RowPlaces(std::size_t rows) : size_(rows + rows / 2 + 1) {
    rows_.reserve_exactly(size_);
    std::fill_n(rows_.data(), size_, kNone);
  }

  /// Places are below this.
  std::size_t size() const { return size_; }
  /// The place of a row, which it gets now if it has none.
  std::size_t give(std::uint32_t row) {
    const std::size_t at = seek(row);
    rows_[at] = row;
    return at;
  }
  /// The place of a row, kNone if it has none.
  std::size_t find(std::uint32_t row) const {
    const std::size_t at = seek(row);
    return rows_[at] == kNone ? kNone : at;
  }

 private:
  // where the row is, or would be
  std::size_t seek(std::uint32_t row) const {
    const std::uint32_t hash = row * 2654435769u;  // 2^32 / the golden ratio
    std::size_t at = static_cast<std::size_t>((static_cast<std::uint64_t>(hash) * size_) >> 32);
    while (rows_[at] != row && rows_[at] != kNone) at = at + 1 == size_ ? 0 : at + 1;
    return at;
  }

  std::size_t size_;
  Buffer<std::uint32_t> rows_;  ///< by place, kNone where it is free
};

}  // namespace foregather
