// Typed layerwise: LADIES and FastGCN relation by relation, for a bulk of minibatches of a graph
// with types.
//
// Layer l goes through the relations in the order of their numbers. Relation (u, v) has as targets
// all vertices of type v met before the layer; sizes[l] columns are chosen among the vertices of
// type u by the rule of layerwise.hpp over the relation's own block, under relation_key. Its edges
// are those from chosen columns to targets, weighted as there; their sources that are new get the
// next local ids of type u. So a graph of one type and one relation gives the minibatches of
// layerwise.hpp, bit for bit.
//
// A minibatch is the work of one thread, which keeps the scratch of one relation (layerwise.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/layerwise/layerwise_step.hpp"
#include "sampling/typed/typed_graph.hpp"

namespace foregather {

template <typename Id>
struct LayerwiseRelation {
  LayerwiseGraph<Id> graph;
  std::size_t source = 0, target = 0;      ///< numbers of types
  std::vector<std::int64_t> sizes;         ///< columns of each layer; 0: not sampled, -1: all
  std::span<const double> column_weights;  ///< of FastGCN, one a vertex of the source type
  double total = 0;                        ///< their sum
  const Arrivals* arrivals = nullptr;      ///< of column_weights
};

template <typename Id>
struct LayerwiseTypes {
  std::vector<std::int64_t> num_nodes;  ///< of each type
  std::vector<LayerwiseRelation<Id>> relations;
  std::size_t layers = 0;
  Debias debias = Debias::kNone;
};

/// The state of one thread.
template <typename Id>
class TypedLayerwiseWorker {
 public:
  /// Samples minibatch `index` of the seeds under the key of its minibatch. Throws InputError for
  /// a seed that is not a vertex, and for a weight that is not finite.
  void sample(const LayerwiseTypes<Id>& graph, std::span<const TypedSeeds> seeds, std::size_t index,
              std::uint64_t batch, TypedArrays<Id>& out);
  /// Bytes held between calls.
  std::size_t bytes() const { return step_.bytes(); }

 private:
  void start(const LayerwiseTypes<Id>& graph, std::span<const TypedSeeds> seeds, std::size_t index,
             TypedArrays<Id>& out);
  void hand_over(const LayerwiseTypes<Id>& graph, TypedArrays<Id>& out) const;

  LayerwiseStep<Id> step_;
  std::vector<Numbering<Id>> local_;   ///< one a type
  std::vector<LayerwiseEdges> edges_;  ///< one a relation
};

/// Samples minibatches first_batch, first_batch + 1, ... on `threads` threads into *out[i]; all
/// seeds are cut into as many. `workers` holds at least `threads` states.
template <typename Id>
void sample_typed_layerwise(const LayerwiseTypes<Id>& graph, std::span<const TypedSeeds> seeds,
                            std::uint64_t seed, std::uint64_t epoch, std::uint64_t first_batch,
                            int threads, std::span<TypedLayerwiseWorker<Id>> workers,
                            std::span<TypedArrays<Id>* const> out);

}  // namespace foregather
