#include "sampling/nodewise/sample.hpp"

#include <algorithm>

#include "sampling/keys.hpp"
#include "sampling/nodewise/each_layer.hpp"
#include "sampling/nodewise/team_layer.hpp"

namespace foregather {
namespace {

// What both draws of a layer know.
struct Fanout {
  std::int64_t number;  // -1 for all
  bool replace;
  std::uint64_t key;  // of the layer
  std::uint32_t* picks;
  AliasScratch& scratch;

  bool all_of(std::uint32_t degree) const { return number < 0 || (!replace && degree <= number); }
  std::int64_t of(std::uint32_t degree) const {
    return all_of(degree) ? degree : degree == 0 ? 0 : number;
  }
};

// All edges alike.
template <typename Id>
struct UniformDraw {
  static constexpr bool kAsks = false, kReads = false;
  Fanout fanout;

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
};

// Edges by weight; those of weight 0 are as if they were not there.
template <typename Id>
struct WeightedDraw {
  static constexpr bool kAsks = true, kReads = false;
  Fanout fanout;
  const EdgeWeights& weights;

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
};

}  // namespace

template <typename Id>
template <typename Draw>
void NeighborWorker<Id>::sample_layer(const Topology<Id>& graph, std::int64_t first,
                                      std::span<Draw> draws, SampleArrays<Id>& out) {
  if (draws.size() > 1) return expansion_.layer_by_team(graph, first, draws, out);
  expansion_.layer(graph, first, draws[0], out);
}

template <typename Id>
void NeighborWorker<Id>::sample(const Topology<Id>& graph, const NeighborRule& rule,
                                std::span<const std::int64_t> seeds, std::uint64_t seed,
                                std::uint64_t epoch, std::uint64_t batch, SampleArrays<Id>& out,
                                std::span<NeighborWorker> team) {
  const std::uint64_t key = batch_key(seed, epoch, batch);
  if (team.empty()) team = {this, 1};
  std::vector<UniformDraw<Id>> uniform;
  std::vector<WeightedDraw<Id>> weighted;
  each_layer(expansion_, graph, rule, seeds, out, [&](std::size_t layer, std::int64_t first) {
    const std::int64_t number = rule.fanouts[layer];
    const std::uint64_t own = layer_key(key, layer);
    uniform.clear();
    weighted.clear();
    for (NeighborWorker& one : team) {
      if (number > 0) one.picks_.reserve(static_cast<std::size_t>(number));
      const Fanout fanout{number, rule.replace, own, one.picks_.data(), one.scratch_};
      if (rule.weights.cells.empty()) {
        uniform.push_back({fanout});
      } else {
        weighted.push_back({fanout, rule.weights});
      }
    }
    if (rule.weights.cells.empty()) {
      sample_layer<UniformDraw<Id>>(graph, first, uniform, out);
    } else {
      sample_layer<WeightedDraw<Id>>(graph, first, weighted, out);
    }
  });
}

template <typename Id>
std::size_t NeighborWorker<Id>::bytes() const {
  return expansion_.bytes() + picks_.bytes() + scratch_.taken.capacity() * sizeof(std::uint64_t);
}

template class NeighborWorker<std::uint32_t>;
template class NeighborWorker<std::int64_t>;

}  // namespace foregather
