// Draws: which edges of a row a fan-out takes; the Draws (expand.hpp) of neighbour sampling.
//
// What is taken of a row is a pure function of the key of its layer, its vertex and its degree (and
// its weights), so plain and typed sampling, which share this, take the same.
//
// The namespace without a name is on purpose: each source file that includes this has draws of its
// own, so that the compiler inlines into a loop what only this loop calls.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/keys.hpp"
#include "sampling/nodewise/expand.hpp"
#include "sampling/picking/alias.hpp"
#include "sampling/picking/part_pick.hpp"
#include "sampling/picking/pick.hpp"

namespace foregather {
namespace {

/// What the draws of a layer know.
struct Fanout {
  std::int64_t number;  ///< -1 for all
  bool replace;
  std::uint64_t key;  ///< of the layer
  std::uint32_t* picks;
  AliasScratch& scratch;

  bool all_of(std::uint32_t degree) const { return number < 0 || (!replace && degree <= number); }
  std::int64_t of(std::uint32_t degree) const {
    return all_of(degree) ? degree : degree == 0 ? 0 : number;
  }
};

/// Edges of a part of a row by weight, of which `some` have any; returns how many were taken.
inline std::uint32_t take_part(const RowPart& part, const Fanout& fanout, std::uint32_t some,
                               std::uint64_t node, std::int64_t* edge) {
  if (some == 0) return 0;
  if (fanout.all_of(some)) return all_of_part(part, edge);
  const auto count = static_cast<std::uint32_t>(fanout.number);
  pick_part(vertex_key(fanout.key, node), part, fanout.replace, count, fanout.picks,
            fanout.scratch);
  for (std::uint32_t p = 0; p < count; ++p) edge[p] = part.begin + fanout.picks[p];
  return count;
}

/// A row without what is left out of it, as far as its length goes.
template <typename Id>
FrontierRow<Id> without(FrontierRow<Id> row, std::span<const std::int64_t> gaps) {
  row.degree -= static_cast<std::uint32_t>(gaps.size());
  return row;
}

/// All edges of a row but for the gaps.
template <typename Id>
std::uint32_t take_all(const FrontierRow<Id>& row, std::span<const std::int64_t> gaps,
                       std::int64_t* edge) {
  const std::uint32_t count = without(row, gaps).degree;
  for (std::uint32_t p = 0; p < count; ++p) edge[p] = row.begin + p;
  step_over(gaps, edge, count);
  return count;
}

/// All edges alike.
template <typename Id>
struct UniformDraw {
  static constexpr bool kAsks = false, kReads = false, kExact = true;
  Fanout fanout;

  void use(std::uint64_t key) { fanout.key = key; }
  std::int64_t likely(const FrontierRow<Id>& row) const { return fanout.of(row.degree); }
  std::int64_t most(const FrontierRow<Id>& row) const { return fanout.of(row.degree); }
  bool whole(const FrontierRow<Id>& row) const {
    return fanout.all_of(row.degree) || row.degree == 0;
  }
  void ask(const FrontierRow<Id>&) {}
  void weigh(const FrontierRow<Id>&, const std::int64_t*, std::uint32_t, float*) {}

  std::uint32_t operator()(const FrontierRow<Id>& row, std::int64_t* edge) {
    const std::uint64_t key = vertex_key(fanout.key, static_cast<std::uint64_t>(row.node));
    const auto count = static_cast<std::uint32_t>(fanout.number);
    if (fanout.replace) {
      pick_any(key, row.degree, count, fanout.picks);
    } else {
      pick_distinct(key, row.degree, count, fanout.picks, fanout.scratch.taken);
    }
    for (std::uint32_t p = 0; p < count; ++p) edge[p] = row.begin + fanout.picks[p];
    return count;
  }

  // As of a row that has no more than what is left.
  std::int64_t left(const FrontierRow<Id>& row, std::span<const std::int64_t> gaps) const {
    return likely(without(row, gaps));
  }
  std::uint32_t take(const FrontierRow<Id>& row, std::span<const std::int64_t> gaps,
                     std::int64_t* edge) {
    const FrontierRow<Id> rest = without(row, gaps);
    if (whole(rest)) return take_all(row, gaps, edge);
    const std::uint32_t count = (*this)(rest, edge);
    step_over(gaps, edge, count);
    return count;
  }
};

/// Edges by weight; those of weight 0 are as if they were not there.
template <typename Id>
struct WeightedDraw {
  static constexpr bool kAsks = true, kReads = false, kExact = true;
  Fanout fanout;
  const EdgeWeights& weights;

  void use(std::uint64_t key) { fanout.key = key; }
  std::uint32_t positive(const FrontierRow<Id>& row) const {
    return weights.positive.empty() ? row.degree
                                    : weights.positive[static_cast<std::size_t>(row.node)];
  }
  std::int64_t likely(const FrontierRow<Id>& row) const { return fanout.of(positive(row)); }
  std::int64_t most(const FrontierRow<Id>& row) const { return fanout.of(positive(row)); }
  bool whole(const FrontierRow<Id>& row) const {
    const std::uint32_t some = positive(row);
    return some == row.degree && (fanout.all_of(some) || some == 0);
  }
  void weigh(const FrontierRow<Id>&, const std::int64_t*, std::uint32_t, float*) {}

  [[gnu::always_inline]] void ask(const FrontierRow<Id>& row) {
    if (fanout.all_of(row.degree)) return;
    const AliasCell* cells = weights.cells.data() + row.begin;
    if (row.degree <= kShortRow) {
      prefetch_range(short_sums(cells), short_row_sums(row.degree));
      return;
    }
    const std::uint64_t key = vertex_key(fanout.key, static_cast<std::uint64_t>(row.node));
    for (std::int64_t slot = 0; slot < fanout.number; ++slot) {
      __builtin_prefetch(&cells[bounded(key, static_cast<std::uint64_t>(slot), row.degree)]);
    }
  }

  std::uint32_t operator()(const FrontierRow<Id>& row, std::int64_t* edge) {
    const auto own = weights.weights.subspan(static_cast<std::size_t>(row.begin), row.degree);
    if (fanout.all_of(positive(row))) {
      std::uint32_t count = 0;
      for (std::uint32_t p = 0; p < row.degree; ++p) {
        if (own[p] > 0) edge[count++] = row.begin + p;
      }
      return count;
    }
    const std::uint64_t key = vertex_key(fanout.key, static_cast<std::uint64_t>(row.node));
    const AliasCell* cells = weights.cells.data() + row.begin;
    const auto count = static_cast<std::uint32_t>(fanout.number);
    if (fanout.replace) {
      pick_weighted_any(key, cells, row.degree, count, fanout.picks);
    } else {
      pick_weighted(key, cells, own, count, fanout.picks, fanout.scratch);
    }
    for (std::uint32_t p = 0; p < count; ++p) edge[p] = row.begin + fanout.picks[p];
    return count;
  }

  std::int64_t left(const FrontierRow<Id>& row, std::span<const std::int64_t> gaps) const {
    return fanout.of(positive(row) - weights.above_zero(gaps));
  }
  std::uint32_t take(const FrontierRow<Id>& row, std::span<const std::int64_t> gaps,
                     std::int64_t* edge) {
    const RowPart part{weights, row.begin, row.degree, row.degree, gaps};
    return take_part(part, fanout, positive(row) - weights.above_zero(gaps),
                     static_cast<std::uint64_t>(row.node), edge);
  }
};

}  // namespace
}  // namespace foregather
