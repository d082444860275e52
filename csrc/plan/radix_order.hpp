// Radix order: the permutation that sorts ids, stable, in passes of 11 bits.
//
// Passes in which all ids agree are skipped, so the cost follows the span of the ids. Not parallel;
// about 10 ns per id.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace foregather::detail {

template <typename Id>
std::vector<std::uint32_t> radix_order(std::span<const Id> ids) {
  constexpr int kBits = 11;
  constexpr std::size_t kBuckets = std::size_t{1} << kBits;
  std::vector<std::uint32_t> order(ids.size()), next(ids.size());
  std::iota(order.begin(), order.end(), 0u);
  std::uint64_t all = 0, common = ~std::uint64_t{0};
  for (Id id : ids) {
    all |= static_cast<std::uint64_t>(id);
    common &= static_cast<std::uint64_t>(id);
  }
  for (int shift = 0; shift < 64 && ((all ^ common) >> shift) != 0 && !ids.empty();
       shift += kBits) {
    if ((((all ^ common) >> shift) & (kBuckets - 1)) == 0) continue;
    std::array<std::uint32_t, kBuckets> place{};
    const auto digit = [&](std::uint32_t i) {
      return (static_cast<std::uint64_t>(ids[i]) >> shift) & (kBuckets - 1);
    };
    for (std::uint32_t i : order) ++place[digit(i)];
    std::uint32_t sum = 0;
    for (std::uint32_t& count : place) sum += std::exchange(count, sum);
    for (std::uint32_t i : order) next[place[digit(i)]++] = i;
    order.swap(next);
  }
  return order;
}

}  // namespace foregather::detail
