#include "sampling/nodewise/sample.hpp"

#include <algorithm>

#include "sampling/keys.hpp"
#include "sampling/links/excluding_draw.hpp"
#include "sampling/nodewise/draws.hpp"
#include "sampling/nodewise/each_layer.hpp"
#include "sampling/nodewise/team_layer.hpp"

namespace foregather {

template <typename Id>
template <typename Draw>
void NeighborWorker<Id>::sample_layer(const Topology<Id>& graph, std::int64_t first,
                                      std::span<Draw> draws, SampleArrays<Id>& out) {
  const auto run = [&](auto all) {
    if (all.size() > 1) return expansion_.layer_by_team(graph, first, all, out);
    expansion_.layer(graph, first, all[0], out);
  };
  if (!leaves_out(excluded_, expansion_, first)) return run(draws);
  std::vector<ExcludingDraw<Id, Draw>> excluding;
  for (const Draw& draw : draws) excluding.push_back({draw, &excluded_});
  run(std::span<ExcludingDraw<Id, Draw>>(excluding));
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
  return expansion_.bytes() + picks_.bytes() + excluded_.bytes() +
         scratch_.taken.capacity() * sizeof(std::uint64_t);
}

template class NeighborWorker<std::uint32_t>;
template class NeighborWorker<std::int64_t>;

}  // namespace foregather
