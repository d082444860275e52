// Pick: which positions of a row are taken, as a pure function of a key.
//
// pick_distinct takes `count` of `degree` positions, each set equally likely (Floyd's method with
// the bounded integers of random.hpp, draw j under slot j), and writes them in ascending order.
// pick_any takes `count` positions with replacement, ascending too. Both never allocate,
// except that pick_distinct grows its scratch bitmap for rows longer than any before.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/random.hpp"

namespace foregather {

/// A bitmap over the positions of a row; all zero between calls.
using PickScratch = std::vector<std::uint64_t>;

namespace detail {

// Rows of up to 64: the picks are bits of a word, so membership is one test and order is free.
inline void pick_word(std::uint64_t key, std::uint32_t degree, std::uint32_t count,
                      std::uint32_t* out) {
  std::uint64_t taken = 0;
  for (std::uint32_t slot = 0, last = degree - count; slot < count; ++slot, ++last) {
    const std::uint32_t drawn = bounded(key, slot, last + 1);
    const std::uint64_t bit = std::uint64_t{1} << drawn;
    taken |= (taken & bit) != 0 ? std::uint64_t{1} << last : bit;
  }
  for (; taken != 0; taken &= taken - 1) {
    *out++ = static_cast<std::uint32_t>(std::countr_zero(taken));
  }
}

/// Picks that are put in order by comparing each with each.
inline constexpr std::uint32_t kFew = 32;

/// Puts distinct numbers in order: each goes to its rank, which is how many are smaller. Returns
/// false, with `out` in no order, if two are alike.
inline bool rank_distinct(const std::uint32_t* drawn, std::uint32_t count, std::uint32_t* out) {
  std::uint32_t pairs = 0;
  for (std::uint32_t t = 0; t < count; ++t) {
    std::uint32_t below = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      below += drawn[i] < drawn[t];
      pairs += drawn[i] == drawn[t];
    }
    out[below] = drawn[t];
  }
  return pairs == count;
}

/// Puts numbers below `limit` in order. They were drawn evenly, so there is a bucket for each,
/// which holds one or so; what is left to do inside buckets is little. Many are left to std::sort.
inline void sort_even(std::uint32_t* numbers, std::uint32_t count, std::uint32_t limit) {
  constexpr std::uint32_t kLeast = 16, kMost = 512;
  if (count < kLeast || count > kMost) return std::sort(numbers, numbers + count);
  std::array<std::uint32_t, kMost> placed;
  std::array<std::uint16_t, kMost + 1> begin;
  std::fill_n(begin.begin(), count + 1, std::uint16_t{0});
  const std::uint64_t scale = (std::uint64_t{count} << 32) / limit;
  const auto bucket = [&](std::uint32_t x) { return static_cast<std::size_t>(x * scale >> 32); };
  for (std::uint32_t i = 0; i < count; ++i) ++begin[bucket(numbers[i]) + 1];
  for (std::uint32_t b = 0; b < count; ++b) {
    begin[b + 1] = static_cast<std::uint16_t>(begin[b + 1] + begin[b]);
  }
  for (std::uint32_t i = 0; i < count; ++i) placed[begin[bucket(numbers[i])]++] = numbers[i];
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t own = placed[i];
    std::uint32_t at = i;
    for (; at > 0 && numbers[at - 1] > own; --at) numbers[at] = numbers[at - 1];
    numbers[at] = own;
  }
}

// Few picks of a long row. A draw that is taken already is replaced by `last`, which is larger than
// all before; that is rare, so all are drawn first.
inline void pick_few(std::uint64_t key, std::uint32_t degree, std::uint32_t count,
                     std::uint32_t* out) {
  std::array<std::uint32_t, kFew> drawn;
  for (std::uint32_t slot = 0, last = degree - count; slot < count; ++slot, ++last) {
    drawn[slot] = bounded(key, slot, last + 1);
  }
  if (rank_distinct(drawn.data(), count, out)) return;
  for (std::uint32_t slot = 0, last = degree - count; slot < count; ++slot, ++last) {
    if (std::find(out, out + slot, drawn[slot]) != out + slot) drawn[slot] = last;
    out[slot] = drawn[slot];
  }
  std::sort(out, out + count);
}

inline void pick_many(std::uint64_t key, std::uint32_t degree, std::uint32_t count,
                      std::uint32_t* out, PickScratch& scratch) {
  const std::size_t words = (std::size_t{degree} + 63) / 64;
  if (scratch.size() < words) scratch.resize(words, 0);
  for (std::uint32_t slot = 0, last = degree - count; slot < count; ++slot, ++last) {
    std::uint32_t drawn = bounded(key, slot, last + 1);
    if ((scratch[drawn / 64] >> (drawn % 64)) & 1) drawn = last;
    scratch[drawn / 64] |= std::uint64_t{1} << (drawn % 64);
    out[slot] = drawn;
  }
  if (words <= count) {  // dense: read the bits in order
    std::uint32_t* next = out;
    for (std::size_t w = 0; w < words; ++w) {
      for (std::uint64_t left = scratch[w]; left != 0; left &= left - 1) {
        *next++ =
            static_cast<std::uint32_t>(w * 64) + static_cast<std::uint32_t>(std::countr_zero(left));
      }
      scratch[w] = 0;
    }
    return;
  }
  for (std::uint32_t slot = 0; slot < count; ++slot) scratch[out[slot] / 64] = 0;
  sort_even(out, count, degree);
}

}  // namespace detail

/// `count` distinct positions of a row of `degree` >= `count`, ascending.
inline void pick_distinct(std::uint64_t key, std::uint32_t degree, std::uint32_t count,
                          std::uint32_t* out, PickScratch& scratch) {
  if (count == degree) {
    for (std::uint32_t i = 0; i < count; ++i) out[i] = i;
  } else if (degree <= 64) {
    detail::pick_word(key, degree, count, out);
  } else if (count <= detail::kFew) {
    detail::pick_few(key, degree, count, out);
  } else {
    detail::pick_many(key, degree, count, out, scratch);
  }
}

/// `count` positions of a row of `degree` > 0, with replacement, ascending.
inline void pick_any(std::uint64_t key, std::uint32_t degree, std::uint32_t count,
                     std::uint32_t* out) {
  for (std::uint32_t slot = 0; slot < count; ++slot) out[slot] = bounded(key, slot, degree);
  detail::sort_even(out, count, degree);
}

}  // namespace foregather
