// Alias: picks by weight from a row, in a time that does not grow with the row.
//
// Rows of up to 32 entries: see short_row.hpp. The others are cells, by Walker's method: a row of
// `degree` entries becomes as many cells of equal probability; a cell keeps its own entry with
// probability keep / 2^32 and otherwise stands for one other entry. So a draw reads one cell. Cells
// are made once for a graph and its weights, 8 bytes per edge, from weights of which only the
// ratios inside a row matter; a probability is exact to 2^-32 of the mean of its row. An entry of
// weight 0 is never picked.
//
// With replacement, pick t is draw t. Without, draws go on until `count` distinct entries were met:
// each new one has the probability of its weight among those not yet picked, which is successive
// sampling. If tries() draws did not suffice (few entries have most of the weight, or nearly all
// are wanted), the rest is chosen by exponential keys, -log(u) / weight, over the entries not
// picked. Draws that were refused say nothing about those, so the distribution stays the same.
//
// Only + - * / of doubles in the order of the row, and integers: the same bits on every machine.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/exact_math.hpp"
#include "base/random.hpp"
#include "parallel/buffer.hpp"
#include "sampling/picking/pick.hpp"
#include "sampling/picking/short_row.hpp"

namespace foregather {

struct AliasCell {
  std::uint32_t keep;   ///< probability of the own entry, in 2^-32
  std::uint32_t other;  ///< position in the row of the entry it stands for otherwise
};

/// The sums of a short row, which stand where its cells would.
inline const std::int32_t* short_sums(const AliasCell* cells) {
  return reinterpret_cast<const std::int32_t*>(cells);
}

/// Scratch of alias_row and pick_weighted; kept between calls.
struct AliasScratch {
  std::vector<double> part;
  std::vector<std::uint32_t> small, large;
  std::vector<std::pair<double, std::uint32_t>> rest;
  PickScratch taken;
};

/// What picks read of one row: its cells, or the sums of a short row in their place; `weights` are
/// finite, >= 0, and not all 0.
template <typename Weight>
void prepare_row(std::span<const Weight> weights, std::span<AliasCell> cells,
                 AliasScratch& scratch);

/// The cells of one row, however short.
template <typename Weight>
void alias_row(std::span<const Weight> weights, std::span<AliasCell> cells, AliasScratch& scratch);

/// Weights of a graph, ready for picks; a view.
struct EdgeWeights {
  std::span<const float> weights;           ///< [E]
  std::span<const AliasCell> cells;         ///< [E]
  std::span<const std::uint32_t> positive;  ///< [N] entries above 0 of each row; empty if all are

  /// How many of these positions have a weight above 0.
  std::uint32_t above_zero(std::span<const std::int64_t> edges) const {
    return static_cast<std::uint32_t>(
        std::count_if(edges.begin(), edges.end(),
                      [&](std::int64_t e) { return weights[static_cast<std::size_t>(e)] > 0; }));
  }
};

/// Makes the cells of a graph; `positive` stays empty if no weight is 0. Throws InputError for a
/// weight that is negative or not finite, and for a row with entries whose weights are all 0.
void prepare_weights(std::span<const std::int64_t> indptr, std::span<const float> weights,
                     Buffer<AliasCell>& cells, std::vector<std::uint32_t>& positive, int threads);

namespace detail {

/// Draws that pick_weighted makes before it turns to keys.
constexpr std::uint32_t tries(std::uint32_t count) { return 6 * count + 16; }

/// The word under which the keys of the rest are drawn; no slot comes near.
inline constexpr std::uint64_t kRest = ~std::uint64_t{0} - 1;

inline std::uint32_t draw_cell(std::uint64_t key, std::uint64_t slot, const AliasCell* cells,
                               std::uint32_t degree) {
  std::uint64_t bits = draw(key, slot);
  const std::uint32_t at = bounded_bits(bits, degree);
  const AliasCell cell = cells[at];
  // A mask, not a branch: the answer is a coin flip.
  const std::uint32_t own = 0u - (static_cast<std::uint32_t>(bits) < cell.keep ? 1u : 0u);
  return (at & own) | (cell.other & ~own);
}

/// Rows of up to 64: the picks are bits of a word. Returns how many were found.
inline std::uint32_t meet_word(std::uint64_t key, const AliasCell* cells, std::uint32_t degree,
                               std::uint32_t count, std::uint32_t* out) {
  std::uint64_t taken = 0;
  std::uint32_t have = 0;
  for (std::uint32_t slot = 0; have < count && slot < tries(count); ++slot) {
    const std::uint32_t at = draw_cell(key, slot, cells, degree);
    have += static_cast<std::uint32_t>(~taken >> at) & 1u;
    taken |= std::uint64_t{1} << at;
  }
  for (; taken != 0; taken &= taken - 1) {
    *out++ = static_cast<std::uint32_t>(std::countr_zero(taken));
  }
  return have;
}

/// Few picks of a long row. Only if two of the first draws are alike more are made. What was met
/// are bits, read and written without a branch: whether a draw is new is a coin flip.
inline std::uint32_t meet_few(std::uint64_t key, const AliasCell* cells, std::uint32_t degree,
                              std::uint32_t count, std::uint32_t* out, PickScratch& scratch) {
  std::array<std::uint32_t, kFew> drawn;
  for (std::uint32_t t = 0; t < count; ++t) drawn[t] = draw_cell(key, t, cells, degree);
  if (rank_distinct(drawn.data(), count, out)) return count;
  const std::size_t words = (std::size_t{degree} + 63) / 64;
  if (scratch.size() < words) scratch.resize(words, 0);
  std::uint64_t* const bits = scratch.data();
  std::uint32_t have = 0;
  const auto meet = [&](std::uint32_t at) __attribute__((always_inline)) {
    std::uint64_t& word = bits[at / 64];
    drawn[have] = at;  // stays only if it is new
    have += static_cast<std::uint32_t>(~word >> (at % 64)) & 1u;
    word |= std::uint64_t{1} << (at % 64);
  };
  for (std::uint32_t t = 0; t < count; ++t) meet(drawn[t]);
  // About as many draws again are needed; where their cells are does not depend on one another.
  const std::uint32_t soon = std::min(count + 2 * (count - have), tries(count));
  for (std::uint32_t slot = count; slot < soon; ++slot) {
    __builtin_prefetch(&cells[bounded(key, slot, degree)]);
  }
  for (std::uint32_t slot = count; have < count && slot < tries(count); ++slot) {
    meet(draw_cell(key, slot, cells, degree));
  }
  for (std::uint32_t i = 0; i < have; ++i) bits[drawn[i] / 64] = 0;
  rank_distinct(drawn.data(), have, out);
  return have;
}

inline std::uint32_t meet_many(std::uint64_t key, const AliasCell* cells, std::uint32_t degree,
                               std::uint32_t count, std::uint32_t* out, PickScratch& scratch) {
  const std::size_t words = (std::size_t{degree} + 63) / 64;
  if (scratch.size() < words) scratch.resize(words, 0);
  std::uint32_t have = 0;
  for (std::uint32_t slot = 0; have < count && slot < tries(count); ++slot) {
    const std::uint32_t at = draw_cell(key, slot, cells, degree);
    const std::uint64_t bit = std::uint64_t{1} << (at % 64);
    if ((scratch[at / 64] & bit) != 0) continue;
    scratch[at / 64] |= bit;
    out[have++] = at;
  }
  for (std::uint32_t i = 0; i < have; ++i) scratch[out[i] / 64] = 0;
  std::sort(out, out + have);
  return have;
}

/// Adds the entries with the smallest keys to the `have` picks, which ascend, until they are
/// `count`. Ties go to the smaller position. `rest` is a heap of the smallest so far; -log(u) is at
/// least 1 - u, so most entries are refused by one multiplication, without a logarithm.
template <typename Weight>
void take_rest(std::uint64_t key, std::span<const Weight> weights, std::uint32_t have,
               std::uint32_t count, std::uint32_t* out,
               std::vector<std::pair<double, std::uint32_t>>& rest) {
  const std::uint64_t own = derive(key, kRest);
  const std::size_t wanted = count - have;
  rest.clear();
  std::uint32_t passed = 0;
  for (std::uint32_t at = 0; at < weights.size(); ++at) {
    if (passed < have && out[passed] == at) {
      ++passed;
      continue;
    }
    const auto weight = static_cast<double>(weights[at]);
    if (!(weight > 0)) continue;
    const std::uint64_t bits = draw(own, at);
    if (rest.size() == wanted) {
      // The margin covers rounding: what is refused has a larger key for certain.
      if (1 - to_open_unit(bits) > rest.front().first * weight * (1 + 0x1.0p-40)) continue;
      const std::pair<double, std::uint32_t> entry{exponential(bits) / weight, at};
      if (!(entry < rest.front())) continue;
      std::pop_heap(rest.begin(), rest.end());
      rest.back() = entry;
    } else {
      rest.emplace_back(exponential(bits) / weight, at);
    }
    std::push_heap(rest.begin(), rest.end());
  }
  for (const auto& entry : rest) out[have++] = entry.second;
  std::sort(out, out + count);
}

}  // namespace detail

/// `count` distinct positions of a row by weight, ascending; at least `count` weights are above 0.
template <typename Weight>
void pick_weighted(std::uint64_t key, const AliasCell* cells, std::span<const Weight> weights,
                   std::uint32_t count, std::uint32_t* out, AliasScratch& scratch) {
  const auto degree = static_cast<std::uint32_t>(weights.size());
  if (degree <= kShortRow) return pick_short(key, short_sums(cells), degree, count, out);
  const std::uint32_t have = degree <= 64 ? detail::meet_word(key, cells, degree, count, out)
                             : count <= detail::kFew
                                 ? detail::meet_few(key, cells, degree, count, out, scratch.taken)
                                 : detail::meet_many(key, cells, degree, count, out, scratch.taken);
  if (have < count) detail::take_rest(key, weights, have, count, out, scratch.rest);
}

/// `count` positions of a row by weight, with replacement, ascending.
inline void pick_weighted_any(std::uint64_t key, const AliasCell* cells, std::uint32_t degree,
                              std::uint32_t count, std::uint32_t* out) {
  if (degree == 1) {
    std::fill_n(out, count, 0);
  } else if (degree <= kShortRow) {
    pick_short_any(key, short_sums(cells), degree, count, out);
  } else {
    for (std::uint32_t t = 0; t < count; ++t) out[t] = detail::draw_cell(key, t, cells, degree);
  }
  std::sort(out, out + count);
}

/// The verb of the matrix program, over k stacked minibatches (sampling_verbs.hpp): picks entries
/// of each row by weight as the fused kernel does, with cells made on the spot. `picks_ptr` is what
/// count_picks gave. Throws InputError as prepare_weights does.
template <typename Id>
void draw_rows(std::span<const Id> rows, std::span<const std::int64_t> batch_ptr,
               std::span<const std::int64_t> ptr, std::span<const double> weights,
               std::span<const std::uint64_t> keys, std::int64_t s, bool replace,
               std::span<const std::int64_t> picks_ptr, std::span<std::int64_t> picks, int threads);

}  // namespace foregather
