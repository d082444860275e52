// PrefixDraw: edges by weight from the prefix of a row that a tree may see.
//
// A prefix that is the whole row is drawn from as a row without time. One of up to 32 edges is
// drawn from as if it were the row. A longer one is drawn from by the cells of the whole row
// (alias.hpp), and draws that come to a later edge are refused: the others have the probabilities
// of the prefix. If tries() draws did not suffice, without replacement the rest is chosen by
// exponential keys as in alias.hpp, and with replacement by the running sums of the prefix. So what
// is taken is a pure function of the key, the row's weights and the length of the prefix.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/nodewise/draws.hpp"

namespace foregather {
namespace {

/// Adds draws with replacement, by the running sums of `weights`, until there are `count`.
inline void draw_rest(std::uint64_t key, std::span<const float> weights, std::uint32_t have,
                      std::uint32_t count, std::uint32_t* out, std::vector<double>& sums) {
  const std::uint64_t own = derive(key, detail::kRest);
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

/// Edges of a timed relation by weight; FrontierRow::degree is the length of the prefix.
template <typename Id>
struct PrefixDraw {
  static constexpr bool kAsks = false, kReads = false, kExact = true;
  Fanout fanout;
  const EdgeWeights& weights;
  const std::int64_t* indptr;
  std::vector<AliasCell>& cells;  ///< scratch

  void use(std::uint64_t key) { fanout.key = key; }
  std::int64_t likely(const FrontierRow<Id>& row) const { return fanout.of(positive(row)); }
  std::int64_t most(const FrontierRow<Id>& row) const { return likely(row); }
  bool whole(const FrontierRow<Id>& row) const {
    return row.degree == 0 || (weights.positive.empty() && fanout.all_of(row.degree));
  }
  void ask(const FrontierRow<Id>&) {}
  void weigh(const FrontierRow<Id>&, const std::int64_t*, std::uint32_t, float*) {}

  std::uint32_t operator()(const FrontierRow<Id>& row, std::int64_t* edge) {
    if (indptr[row.node + 1] - row.begin == row.degree) {
      return WeightedDraw<Id>{fanout, weights}(row, edge);
    }
    const auto own = weights.weights.subspan(static_cast<std::size_t>(row.begin), row.degree);
    const std::uint32_t some = positive(row);
    if (some == 0) return 0;
    std::uint32_t count = 0;
    if (fanout.all_of(some)) {
      for (std::uint32_t p = 0; p < row.degree; ++p) {
        if (own[p] > 0) edge[count++] = row.begin + p;
      }
      return count;
    }
    count = static_cast<std::uint32_t>(fanout.number);
    pick(vertex_key(fanout.key, static_cast<std::uint64_t>(row.node)), row, own, count);
    for (std::uint32_t p = 0; p < count; ++p) edge[p] = row.begin + fanout.picks[p];
    return count;
  }

 private:
  // Edges of the prefix that may be taken.
  std::uint32_t positive(const FrontierRow<Id>& row) const {
    if (weights.positive.empty()) return row.degree;
    const auto own = weights.weights.subspan(static_cast<std::size_t>(row.begin), row.degree);
    return static_cast<std::uint32_t>(
        std::count_if(own.begin(), own.end(), [](float w) { return w > 0; }));
  }

  void pick(std::uint64_t key, const FrontierRow<Id>& row, std::span<const float> own,
            std::uint32_t count) {
    const std::uint32_t length = row.degree;
    std::uint32_t* out = fanout.picks;
    AliasScratch& scratch = fanout.scratch;
    if (length <= kShortRow) {
      cells.resize(kShortRow);
      prepare_row(own, std::span<AliasCell>(cells), scratch);
      if (fanout.replace) return pick_weighted_any(key, cells.data(), length, count, out);
      return pick_weighted(key, cells.data(), own, count, out, scratch);
    }
    const AliasCell* of_row = weights.cells.data() + row.begin;
    const auto degree = static_cast<std::uint32_t>(indptr[row.node + 1] - row.begin);
    PickScratch& taken = scratch.taken;
    const std::size_t words = (std::size_t{length} + 63) / 64;
    if (taken.size() < words) taken.resize(words, 0);
    std::uint32_t have = 0;
    for (std::uint32_t slot = 0; have < count && slot < detail::tries(count); ++slot) {
      const std::uint32_t at = detail::draw_cell(key, slot, of_row, degree);
      if (at >= length) continue;
      const std::uint64_t bit = std::uint64_t{1} << (at % 64);
      if (!fanout.replace && (taken[at / 64] & bit) != 0) continue;
      taken[at / 64] |= bit;
      out[have++] = at;
    }
    for (std::uint32_t p = 0; p < have; ++p) taken[out[p] / 64] = 0;
    if (fanout.replace) {
      if (have < count) draw_rest(key, own, have, count, out, scratch.part);
      std::sort(out, out + count);
      return;
    }
    std::sort(out, out + have);
    if (have < count) detail::take_rest(key, own, have, count, out, scratch.rest);
  }
};

}  // namespace
}  // namespace foregather
