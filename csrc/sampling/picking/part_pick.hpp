// Part pick: picks by weight from a part of a row: its first entries, some of them left out.
//
// A part of up to 32 entries is drawn from as if it were the row. A longer one is drawn from by the
// cells of the whole row (alias.hpp), and draws that come to an entry outside of the part are
// refused: the others have the probabilities of the part. If tries() draws did not suffice,
// without replacement the rest is chosen by exponential keys as in alias.hpp, and with replacement
// by the running sums of the part. So what is taken is a pure function of the key, the row's
// weights and the part.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/picking/alias.hpp"

namespace foregather {

/// A part of a row; a view.
struct RowPart {
  const EdgeWeights& weights;
  std::int64_t begin;                  ///< of the row
  std::uint32_t degree;                ///< of the row
  std::uint32_t length;                ///< entries from `begin` on that the part may have
  std::span<const std::int64_t> gaps;  ///< positions of those that it has not, ascending

  std::span<const float> own() const {
    return weights.weights.subspan(static_cast<std::size_t>(begin), length);
  }
  /// Calls use(position in the row) for the entries of the part.
  template <typename Use>
  void each(const Use& use) const {
    std::size_t next = 0;
    for (std::uint32_t p = 0; p < length; ++p) {
      if (next < gaps.size() && gaps[next] == begin + p) {
        ++next;
      } else {
        use(p);
      }
    }
  }
};

/// Positions of all entries with a weight, ascending; returns how many there are.
inline std::uint32_t all_of_part(const RowPart& part, std::int64_t* edge) {
  std::uint32_t count = 0;
  const auto own = part.own();
  part.each([&](std::uint32_t p) {
    if (own[p] > 0) edge[count++] = part.begin + p;
  });
  return count;
}

namespace detail {

/// Adds draws with replacement, by the running sums of `weights`, until there are `count`.
inline void draw_rest(std::uint64_t key, std::span<const float> weights, std::uint32_t have,
                      std::uint32_t count, std::uint32_t* out, std::vector<double>& sums) {
  const std::uint64_t own = derive(key, kRest);
  double total = 0;
  sums.clear();
  for (const float w : weights) sums.push_back(total += static_cast<double>(w));
  // Rounding may reach the total; the answer is then the last entry with a weight.
  const auto end = std::lower_bound(sums.begin(), sums.end(), total);
  for (std::uint32_t slot = have; slot < count; ++slot) {
    const double at = to_unit(draw(own, slot)) * total;
    out[slot] = static_cast<std::uint32_t>(std::upper_bound(sums.begin(), end, at) - sums.begin());
  }
}

/// As if the part were a row.
inline void pick_short_part(std::uint64_t key, const RowPart& part, bool replace,
                            std::uint32_t count, std::uint32_t* out, AliasScratch& scratch) {
  std::array<float, kShortRow> weights;
  std::array<std::uint32_t, kShortRow> place;
  std::array<AliasCell, kShortRow> cells;
  const auto own = part.own();
  std::uint32_t left = 0;
  part.each([&](std::uint32_t p) {
    weights[left] = own[p];
    place[left++] = p;
  });
  const std::span<const float> row(weights.data(), left);
  prepare_row(row, std::span<AliasCell>(cells), scratch);
  if (replace) {
    pick_weighted_any(key, cells.data(), left, count, out);
  } else {
    pick_weighted(key, cells.data(), row, count, out, scratch);
  }
  for (std::uint32_t p = 0; p < count; ++p) out[p] = place[out[p]];
}

}  // namespace detail

/// `count` entries of a part by weight, ascending: distinct ones, of which there are more than
/// `count`, or with replacement.
inline void pick_part(std::uint64_t key, const RowPart& part, bool replace, std::uint32_t count,
                      std::uint32_t* out, AliasScratch& scratch) {
  if (part.length - part.gaps.size() <= kShortRow) {
    return detail::pick_short_part(key, part, replace, count, out, scratch);
  }
  const AliasCell* cells = part.weights.cells.data() + part.begin;
  PickScratch& refused = scratch.taken;
  const std::size_t words = (std::size_t{part.length} + 63) / 64;
  if (refused.size() < words) refused.resize(words, 0);
  const auto place = [&](std::int64_t gap) { return static_cast<std::uint32_t>(gap - part.begin); };
  for (const std::int64_t gap : part.gaps) {
    refused[place(gap) / 64] |= std::uint64_t{1} << (place(gap) % 64);
  }
  std::uint32_t have = 0;
  for (std::uint32_t slot = 0; have < count && slot < detail::tries(count); ++slot) {
    const std::uint32_t at = detail::draw_cell(key, slot, cells, part.degree);
    const std::uint64_t bit = std::uint64_t{1} << (at % 64);
    if (at >= part.length || (refused[at / 64] & bit) != 0) continue;
    if (!replace) refused[at / 64] |= bit;
    out[have++] = at;
  }
  for (std::uint32_t p = 0; p < have; ++p) refused[out[p] / 64] = 0;
  for (const std::int64_t gap : part.gaps) refused[place(gap) / 64] = 0;
  if (!replace) std::sort(out, out + have);
  if (have < count) {
    std::vector<float> zeroed;  // rare; a gap has no weight
    std::span<const float> own = part.own();
    if (!part.gaps.empty()) {
      zeroed.assign(own.begin(), own.end());
      for (const std::int64_t gap : part.gaps) zeroed[place(gap)] = 0;
      own = zeroed;
    }
    if (replace) {
      detail::draw_rest(key, own, have, count, out, scratch.part);
    } else {
      detail::take_rest(key, own, have, count, out, scratch.rest);
    }
  }
  if (replace) std::sort(out, out + count);
}

}  // namespace foregather
