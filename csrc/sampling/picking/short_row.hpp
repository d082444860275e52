// Short row: picks by weight from a row of at most 32 entries, where no draw is wasted.
//
// The weights become whole units whose sum is below 2^31, and the row the running sums of its
// units, 4 bytes per entry. A draw is a unit below the last sum, and its entry the first whose
// running sum exceeds it; all sums are compared, four at a time, so nothing is guessed by the
// processor. Without replacement the units of the entry are then subtracted from its own sum and
// all after it, as if it had never been there. So the cost does not depend on the weights.
//
// A probability is exact to 2^-31 of the sum; an entry above 0 has one unit at least, an entry of
// weight 0 has none. Only + * / of doubles in the order of the row, and integers: the same bits on
// every machine.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/random.hpp"

namespace foregather {

/// Rows of up to this many entries are short.
inline constexpr std::uint32_t kShortRow = 32;

namespace detail {

using Four = std::int32_t __attribute__((vector_size(16)));

inline Four four(std::int32_t x) { return Four{x, x, x, x}; }

/// The unit of draw `slot`, below `left`.
inline std::int32_t draw_unit(std::uint64_t key, std::uint64_t slot, std::int32_t left) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int32_t>(
      (static_cast<Wide>(draw(key, slot)) * static_cast<std::uint64_t>(left)) >> 64);
}

/// How many of the 4 * kSteps sums are at most `limit`.
template <std::size_t kSteps>
std::uint32_t count_upto(const std::array<Four, kSteps>& upto, Four limit) {
  Four count{};
#pragma GCC unroll 8
  for (std::size_t k = 0; k < kSteps; ++k) count -= upto[k] <= limit;
  return static_cast<std::uint32_t>((count[0] + count[1]) + (count[2] + count[3]));
}

template <std::size_t kSteps>
std::array<Four, kSteps> load_sums(const std::int32_t* sums) {
  std::array<Four, kSteps> upto;
  std::memcpy(upto.data(), sums, sizeof upto);
  return upto;
}

/// The sums without the entries in `taken`; `left` falls by their units.
template <std::size_t kSteps>
std::array<Four, kSteps> sums_without(std::uint32_t taken, const std::int32_t* sums,
                                      std::int32_t& left) {
  const std::array<Four, kSteps> whole = load_sums<kSteps>(sums);
  std::array<Four, kSteps> upto = whole;
  for (; taken != 0; taken &= taken - 1) {
    const int place = std::countr_zero(taken);
    const std::int32_t own = sums[place] - (place > 0 ? sums[place - 1] : 0);
    const Four limit = four(sums[place]), units = four(own);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < kSteps; ++k) upto[k] -= (whole[k] >= limit) & units;
    left -= own;
  }
  return upto;
}

/// Distinct entries, as bits.
template <std::size_t kSteps>
std::uint32_t take_short(std::uint64_t key, const std::int32_t* sums, std::uint32_t degree,
                         std::uint32_t count) {
  std::int32_t left = sums[degree - 1];
  std::uint32_t taken = 0, have = 0;
  {
    const std::array<Four, kSteps> upto = load_sums<kSteps>(sums);
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      const std::uint32_t place = count_upto(upto, four(draw_unit(key, slot, left)));
      have += (~taken >> place) & 1u;  // not a popcount at the end: to many builds that is a call
      taken |= std::uint32_t{1} << place;
    }
  }
  if (have == count) return taken;
  std::array<Four, kSteps> upto = sums_without<kSteps>(taken, sums, left);
  for (;; ++have) {
    const Four limit = four(draw_unit(key, count + have, left));
    const std::uint32_t place = count_upto(upto, limit);
    taken |= std::uint32_t{1} << place;
    if (have + 1 == count) return taken;
    const std::int32_t own = sums[place] - (place > 0 ? sums[place - 1] : 0);
    const Four units = four(own);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < kSteps; ++k) upto[k] -= (upto[k] > limit) & units;
    left -= own;
  }
}

template <std::size_t kSteps>
void find_short(std::uint64_t key, const std::int32_t* sums, std::uint32_t degree,
                std::uint32_t count, std::uint32_t* out) {
  const std::array<Four, kSteps> upto = load_sums<kSteps>(sums);
  const std::int32_t left = sums[degree - 1];
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    out[slot] = count_upto(upto, four(draw_unit(key, slot, left)));
  }
}

}  // namespace detail

/// Sums of a row of `degree` entries, with those that fill it up: at most two per entry.
constexpr std::size_t short_row_sums(std::size_t degree) {
  return std::max<std::size_t>(4, std::bit_ceil(degree));
}

/// Writes short_row_sums(degree) numbers; `weights` are finite, >= 0, not all 0, and 2 to
/// kShortRow.
template <typename Weight>
void write_short_row(std::span<const Weight> weights, std::int32_t* out) {
  const auto largest = static_cast<double>(*std::max_element(weights.begin(), weights.end()));
  double total = 0;
  for (const Weight w : weights) total += static_cast<double>(w) / largest;
  const double scale = (0x1.0p31 - 1 - kShortRow) / total;
  std::int32_t sum = 0;
  for (const Weight w : weights) {
    const auto units = static_cast<std::int32_t>(static_cast<double>(w) / largest * scale);
    if (w > 0) sum += std::max<std::int32_t>(1, units);
    *out++ = sum;
  }
  // No draw comes to the sums that fill the row up, whatever is taken away.
  std::fill_n(out, short_row_sums(weights.size()) - weights.size(), 0x7FFFFFFF);
}

/// `count` distinct positions of a short row, ascending; at least `count` weights are above 0.
inline void pick_short(std::uint64_t key, const std::int32_t* sums, std::uint32_t degree,
                       std::uint32_t count, std::uint32_t* out) {
  std::uint32_t taken = degree <= 4    ? detail::take_short<1>(key, sums, degree, count)
                        : degree <= 8  ? detail::take_short<2>(key, sums, degree, count)
                        : degree <= 16 ? detail::take_short<4>(key, sums, degree, count)
                                       : detail::take_short<8>(key, sums, degree, count);
  for (std::uint32_t i = 0; i < count; ++i, taken &= taken - 1) {
    out[i] = static_cast<std::uint32_t>(std::countr_zero(taken));
  }
}

/// `count` positions of a short row, with replacement, in the order of the draws.
inline void pick_short_any(std::uint64_t key, const std::int32_t* sums, std::uint32_t degree,
                           std::uint32_t count, std::uint32_t* out) {
  if (degree <= 4) return detail::find_short<1>(key, sums, degree, count, out);
  if (degree <= 8) return detail::find_short<2>(key, sums, degree, count, out);
  if (degree <= 16) return detail::find_short<4>(key, sums, degree, count, out);
  detail::find_short<8>(key, sums, degree, count, out);
}

}  // namespace foregather
