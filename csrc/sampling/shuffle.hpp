// epoch_order: the order of an epoch's positions, any piece of it without the rest.
//
// Entry k is a bijection of [0, count) chosen by a key. From kTable positions on it is a
// Permutation, which needs no table. Below, the rectangle of a Permutation has so few cells that
// many orders cannot be reached (one row for three positions: rotations only), so the order is
// drawn by Fisher and Yates: every order is equally likely, and the whole of it is small.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/permutation.hpp"
#include "base/random.hpp"

namespace foregather {

inline constexpr std::uint64_t kTable = 64;

/// out[k] = entry start + k of the order; start + out.size() <= count < 2^62.
inline void epoch_order(std::uint64_t count, std::uint64_t key, std::uint64_t start,
                        std::span<std::int64_t> out) {
  if (out.empty()) return;
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = static_cast<std::int64_t>(start + k);
  if (count >= kTable) {
    Permutation(count, key).forward_all(out);
    return;
  }
  std::array<std::int64_t, kTable> order;
  for (std::size_t k = 0; k < count; ++k) order[k] = static_cast<std::int64_t>(k);
  for (std::size_t k = static_cast<std::size_t>(count) - 1; k > 0; --k) {
    std::swap(order[k], order[bounded(key, k, static_cast<std::uint32_t>(k + 1))]);
  }
  for (std::int64_t& value : out) value = order[static_cast<std::size_t>(value)];
}

}  // namespace foregather
