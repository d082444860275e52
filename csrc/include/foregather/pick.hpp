// Pick: which positions of a row are taken, as a pure function of a key.
//
// pick_distinct takes `count` of `degree` positions, each set equally likely (Floyd's method with
// the bounded integers of random.hpp, draw j under slot j), and writes them in ascending order.
// pick_any takes `count` positions with replacement, ascending too. Both never allocate,
// except that pick_distinct grows its scratch bitmap for rows longer than any before.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "foregather/random.hpp"

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

// Few picks of a long row: they are kept sorted while they are drawn. A draw that is taken already
// is replaced by `last`, which is larger than all before, so it goes to the end.
inline void pick_few(std::uint64_t key, std::uint32_t degree, std::uint32_t count,
                     std::uint32_t* out) {
  for (std::uint32_t slot = 0, last = degree - count; slot < count; ++slot, ++last) {
    const std::uint32_t drawn = bounded(key, slot, last + 1);
    std::uint32_t below = 0;
    bool taken = false;
    for (std::uint32_t i = 0; i < slot; ++i) {
      below += out[i] < drawn;
      taken |= out[i] == drawn;
    }
    if (taken) {
      out[slot] = last;
      continue;
    }
    for (std::uint32_t i = slot; i > below; --i) out[i] = out[i - 1];
    out[below] = drawn;
  }
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
  std::sort(out, out + count);
}

}  // namespace detail

/// `count` distinct positions of a row of `degree` >= `count`, ascending.
inline void pick_distinct(std::uint64_t key, std::uint32_t degree, std::uint32_t count,
                          std::uint32_t* out, PickScratch& scratch) {
  constexpr std::uint32_t kFew = 32;
  if (count == degree) {
    for (std::uint32_t i = 0; i < count; ++i) out[i] = i;
  } else if (degree <= 64) {
    detail::pick_word(key, degree, count, out);
  } else if (count <= kFew) {
    detail::pick_few(key, degree, count, out);
  } else {
    detail::pick_many(key, degree, count, out, scratch);
  }
}

/// `count` positions of a row of `degree` > 0, with replacement, ascending.
inline void pick_any(std::uint64_t key, std::uint32_t degree, std::uint32_t count,
                     std::uint32_t* out) {
  for (std::uint32_t slot = 0; slot < count; ++slot) out[slot] = bounded(key, slot, degree);
  std::sort(out, out + count);
}

}  // namespace foregather
