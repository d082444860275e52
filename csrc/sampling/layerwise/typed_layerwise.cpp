#include "sampling/layerwise/typed_layerwise.hpp"

#include <algorithm>

#include "parallel/pool.hpp"
#include "sampling/keys.hpp"

namespace foregather {

template <typename Id>
void TypedLayerwiseWorker<Id>::start(const LayerwiseTypes<Id>& graph,
                                     std::span<const TypedSeeds> seeds, std::size_t index,
                                     TypedArrays<Id>& out) {
  local_.resize(graph.num_nodes.size());
  edges_.resize(graph.relations.size());
  out.types.resize(graph.num_nodes.size());
  out.relations.resize(graph.relations.size());
  out.in_trees = false;
  for (Numbering<Id>& numbers : local_) numbers.clear(numbers.size());
  for (LayerwiseEdges& edges : edges_) edges.clear();
  for (TypeArrays<Id>& type : out.types) {
    type.num_nodes.clear();
    type.seed_position.clear();
  }
  for (RelationArrays& relation : out.relations) relation.num_edges.clear();
  for (const TypedSeeds& group : seeds) {
    Numbering<Id>& numbers = local_[group.type];
    std::vector<std::int64_t> position;
    for (auto s = group.ptr[index]; s < group.ptr[index + 1]; ++s) {
      const std::int64_t v = group.seeds[static_cast<std::size_t>(s)];
      check_seed(position.size(), v, graph.num_nodes[group.type]);
      position.push_back(numbers.number(static_cast<Id>(v)));
    }
    if (numbers.size() < position.size()) out.types[group.type].seed_position.swap(position);
  }
}

template <typename Id>
void TypedLayerwiseWorker<Id>::hand_over(const LayerwiseTypes<Id>& graph,
                                         TypedArrays<Id>& out) const {
  for (std::size_t t = 0; t < local_.size(); ++t) {
    const auto ids = local_[t].ids();
    out.types[t].node.reserve(ids.size() + 1);
    std::copy(ids.begin(), ids.end(), out.types[t].node.data());
  }
  for (std::size_t r = 0; r < edges_.size(); ++r) {
    const LayerwiseEdges& own = edges_[r];
    RelationArrays& made = out.relations[r];
    made.weighted = graph.debias != Debias::kNone;
    made.count = static_cast<std::int64_t>(own.edge.size());
    made.make_room(made.count + 1, 0);
    std::copy(own.row.begin(), own.row.end(), made.row.data());
    std::copy(own.col.begin(), own.col.end(), made.col.data());
    std::copy(own.edge.begin(), own.edge.end(), made.edge.data());
    std::copy(own.weight.begin(), own.weight.end(), made.weight.data());
  }
}

template <typename Id>
void TypedLayerwiseWorker<Id>::sample(const LayerwiseTypes<Id>& graph,
                                      std::span<const TypedSeeds> seeds, std::size_t index,
                                      std::uint64_t batch, TypedArrays<Id>& out) {
  start(graph, seeds, index, out);
  const auto count_nodes = [&] {
    for (std::size_t t = 0; t < local_.size(); ++t) {
      out.types[t].num_nodes.push_back(static_cast<std::int64_t>(local_[t].size()));
    }
  };
  count_nodes();
  for (std::size_t layer = 0; layer < graph.layers; ++layer) {
    for (std::size_t r = 0; r < graph.relations.size(); ++r) {
      const LayerwiseRelation<Id>& own = graph.relations[r];
      const auto targets = static_cast<std::size_t>(out.types[own.target].num_nodes.back());
      const std::size_t before = edges_[r].edge.size();
      const std::int64_t s = own.sizes[layer];
      if (s != 0 && targets > 0) {
        const LayerwiseRule rule{{}, graph.debias, own.column_weights, own.total, own.arrivals};
        step_.run(own.graph, graph.num_nodes[own.source], rule, s,
                  relation_key(layer_key(batch, layer), r), local_[own.target].ids().first(targets),
                  local_[own.source], edges_[r]);
      }
      out.relations[r].num_edges.push_back(
          static_cast<std::int64_t>(edges_[r].edge.size() - before));
    }
    count_nodes();
  }
  hand_over(graph, out);
}

template <typename Id>
void sample_typed_layerwise(const LayerwiseTypes<Id>& graph, std::span<const TypedSeeds> seeds,
                            std::uint64_t seed, std::uint64_t epoch, std::uint64_t first_batch,
                            int threads, std::span<TypedLayerwiseWorker<Id>> workers,
                            std::span<TypedArrays<Id>* const> out) {
  check_groups(seeds, graph.num_nodes.size(), out.size());
  parallel_tasks(static_cast<std::int64_t>(out.size()), threads, [&](std::int64_t i, int thread) {
    const auto k = static_cast<std::size_t>(i);
    workers[static_cast<std::size_t>(thread)].sample(
        graph, seeds, k, batch_key(seed, epoch, first_batch + k), *out[k]);
  });
}

#define FOREGATHER_TYPED_LAYERWISE(Id)                                                      \
  template class TypedLayerwiseWorker<Id>;                                                  \
  template void sample_typed_layerwise(                                                     \
      const LayerwiseTypes<Id>&, std::span<const TypedSeeds>, std::uint64_t, std::uint64_t, \
      std::uint64_t, int, std::span<TypedLayerwiseWorker<Id>>, std::span<TypedArrays<Id>* const>);
FOREGATHER_TYPED_LAYERWISE(std::uint32_t)
FOREGATHER_TYPED_LAYERWISE(std::int64_t)
#undef FOREGATHER_TYPED_LAYERWISE

}  // namespace foregather
