// PrefixDraw: edges by weight from the prefix of a row that a tree may see.
//
// A prefix that is the whole row is drawn from as a row without time; another one is a part of the
// row (part_pick.hpp). So what is taken is a pure function of the key, the row's weights and the
// length of the prefix.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "sampling/nodewise/draws.hpp"

namespace foregather {
namespace {

/// Edges of a timed relation by weight; FrontierRow::degree is the length of the prefix.
template <typename Id>
struct PrefixDraw {
  static constexpr bool kAsks = false, kReads = false, kExact = true;
  Fanout fanout;
  const EdgeWeights& weights;
  const std::int64_t* indptr;

  void use(std::uint64_t key) { fanout.key = key; }
  std::int64_t likely(const FrontierRow<Id>& row) const { return fanout.of(positive(row)); }
  std::int64_t most(const FrontierRow<Id>& row) const { return likely(row); }
  bool whole(const FrontierRow<Id>& row) const {
    return row.degree == 0 || (weights.positive.empty() && fanout.all_of(row.degree));
  }
  void ask(const FrontierRow<Id>&) {}
  void weigh(const FrontierRow<Id>&, const std::int64_t*, std::uint32_t, float*) {}

  std::uint32_t operator()(const FrontierRow<Id>& row, std::int64_t* edge) {
    if (length(row) == row.degree) return WeightedDraw<Id>{fanout, weights}(row, edge);
    return take(row, {}, edge);
  }

  std::int64_t left(const FrontierRow<Id>& row, std::span<const std::int64_t> gaps) const {
    return fanout.of(positive(row) - weights.above_zero(gaps));
  }
  std::uint32_t take(const FrontierRow<Id>& row, std::span<const std::int64_t> gaps,
                     std::int64_t* edge) {
    const RowPart part{weights, row.begin, length(row), row.degree, gaps};
    return take_part(part, fanout, positive(row) - weights.above_zero(gaps),
                     static_cast<std::uint64_t>(row.node), edge);
  }

 private:
  std::uint32_t length(const FrontierRow<Id>& row) const {
    return static_cast<std::uint32_t>(indptr[row.node + 1] - row.begin);
  }
  // Edges of the prefix that may be taken.
  std::uint32_t positive(const FrontierRow<Id>& row) const {
    if (weights.positive.empty()) return row.degree;
    const auto own = weights.weights.subspan(static_cast<std::size_t>(row.begin), row.degree);
    return static_cast<std::uint32_t>(
        std::count_if(own.begin(), own.end(), [](float w) { return w > 0; }));
  }
};

}  // namespace
}  // namespace foregather
