// Permutation: a keyed bijection of [0, n), both directions in O(1) and without a table.
//
// A Feistel network on a rectangle: x is written as (left, right) with x = left * columns + right,
// and each round adds to one part a hash of the other, modulo the extent of the part. The rectangle
// is the smallest of floor(sqrt(n)) rows that holds n, so it has fewer than sqrt(n) cells too many;
// a result among those is fed through again ("cycle walking"), which ends because the network
// permutes the rectangle and the walk started inside [0, n).
//
// Four half-rounds with a light hash: enough to leave no trace of the order, not a cipher.
// Integers only: the same bijection on every machine.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/divisor.hpp"
#include "base/random.hpp"

namespace foregather {

class Permutation {
 public:
  /// A bijection of [0, n), 1 <= n < 2^62, chosen by `key`.
  Permutation(std::uint64_t n, std::uint64_t key) : n_(n) {
    rows_ = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
    if (rows_ == 0) rows_ = 1;
    columns_ = (n + rows_ - 1) / rows_;
    by_columns_ = Divisor(columns_);
    for (std::size_t round = 0; round < keys_.size(); ++round) keys_[round] = derive(key, round);
  }

  std::uint64_t size() const { return n_; }

  /// Where x goes; x < n.
  std::uint64_t forward(std::uint64_t x) const {
    do x = pass(x);
    while (x >= n_);
    return x;
  }

  /// values[k] = forward(values[k]), several times faster: round by round over a strip of values,
  /// so that the chains of dependent products overlap.
  template <typename Value>
  void forward_all(std::span<Value> values) const {
    constexpr std::size_t kStrip = 128;
    std::uint64_t left[kStrip], right[kStrip];
    for (std::size_t at = 0; at < values.size(); at += kStrip) {
      const std::size_t count = std::min(kStrip, values.size() - at);
      Value* value = values.data() + at;
      for (std::size_t k = 0; k < count; ++k) {
        const auto x = static_cast<std::uint64_t>(value[k]);
        left[k] = by_columns_.quotient(x);
        right[k] = x - left[k] * columns_;
      }
      for (std::size_t round = 0; round < keys_.size(); round += 2) {
        add(left, right, count, keys_[round], rows_);
        add(right, left, count, keys_[round + 1], columns_);
      }
      for (std::size_t k = 0; k < count; ++k) {
        const std::uint64_t y = left[k] * columns_ + right[k];
        value[k] = static_cast<Value>(y < n_ ? y : forward(y));
      }
    }
  }

  /// Where y came from: inverse(forward(x)) == x.
  std::uint64_t inverse(std::uint64_t y) const {
    do y = pass_back(y);
    while (y >= n_);
    return y;
  }

 private:
  // A hash of one part as an offset in [0, extent); extents stay below 2^32. The upper half of two
  // products is mixed well enough here, and a permuted id costs four of these.
  static std::uint64_t offset(std::uint64_t key, std::uint64_t part, std::uint64_t extent) {
    std::uint64_t hash = (part + key) * 0xBF58476D1CE4E5B9ull;
    hash = (hash ^ (hash >> 32)) * 0x94D049BB133111EBull;
    return ((hash >> 32) * extent) >> 32;
  }
  // x modulo the extent for x < 2 * extent. Without a branch: it would be mispredicted every other
  // time, and compilers turn `?:` into one.
  static std::uint64_t wrap(std::uint64_t x, std::uint64_t extent) {
    const std::uint64_t less = x - extent;
    return less + (extent & (0 - (less >> 63)));
  }

  static void add(std::uint64_t* to, const std::uint64_t* from, std::size_t count,
                  std::uint64_t key, std::uint64_t extent) {
    for (std::size_t k = 0; k < count; ++k)
      to[k] = wrap(to[k] + offset(key, from[k], extent), extent);
  }

  std::uint64_t pass(std::uint64_t x) const {
    std::uint64_t left = by_columns_.quotient(x);
    std::uint64_t right = x - left * columns_;
    for (std::size_t round = 0; round < keys_.size(); round += 2) {
      left = wrap(left + offset(keys_[round], right, rows_), rows_);
      right = wrap(right + offset(keys_[round + 1], left, columns_), columns_);
    }
    return left * columns_ + right;
  }

  std::uint64_t pass_back(std::uint64_t y) const {
    std::uint64_t left = by_columns_.quotient(y);
    std::uint64_t right = y - left * columns_;
    for (std::size_t round = keys_.size(); round > 0; round -= 2) {
      right = wrap(right + columns_ - offset(keys_[round - 1], left, columns_), columns_);
      left = wrap(left + rows_ - offset(keys_[round - 2], right, rows_), rows_);
    }
    return left * columns_ + right;
  }

  std::uint64_t n_;
  std::uint64_t rows_;
  std::uint64_t columns_;
  Divisor by_columns_;
  std::array<std::uint64_t, 4> keys_;
};

}  // namespace foregather
