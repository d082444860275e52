// Typed sample: k minibatches of a graph with node types, relations and times at once.
//
// Layer l goes through the relations in the order of their numbers. Relation (u, v) expands the
// vertices of type v that layer l - 1 met for the first time, in the order in which they were met:
// it takes fanouts[l] edges of each row and gives those sources of type u that are new the next
// local ids of their type. So ids depend on nothing but the draws, and these are the draws of
// plain sampling (draws.hpp) under relation_key: a graph of one type and one relation gives the
// minibatches of sample.hpp, bit for bit.
//
// With trees, each seed is a row of its own, keyed by the number given with it in place of the
// minibatch's, and vertices of different trees are different. All trees of a minibatch grow
// together, so that their memory accesses overlap; what a tree holds, and in which order, does not
// depend on the others. Of a relation with time a tree sees the edges no later than the time given
// with its seed: the draws are those of a row that ends there (prefix.hpp).
//
// A minibatch is the work of one thread. Memory for each thread: 4 bytes per vertex of the graph,
// or with trees 32 bytes and more per vertex of the minibatch; 12 bytes per frontier row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/buffer.hpp"
#include "sampling/numbering/relabel.hpp"
#include "sampling/typed/tree_numbers.hpp"
#include "sampling/typed/typed_graph.hpp"

namespace foregather {

/// The state of one thread.
template <typename Id>
class TypedWorker {
 public:
  /// Samples minibatch `index` of the seeds as minibatch number `batch` of its epoch. Throws
  /// InputError for a seed that is not a vertex.
  void sample(const TypedGraph<Id>& graph, const TypedRule& rule, std::span<const TypedSeeds> seeds,
              std::size_t index, std::uint64_t seed, std::uint64_t epoch, std::uint64_t batch,
              TypedArrays<Id>& out);
  /// Bytes held between calls.
  std::size_t bytes() const;

 private:
  static constexpr std::int64_t kAhead = 24;  // rows ahead whose indptr is asked for
  static constexpr std::int64_t kBlock = 16;  // rows of a pipeline block
  static constexpr std::int64_t kAsk = 3;     // blocks ahead that a Draw is asked for

  struct Span {
    std::int64_t first = 0, last = 0;
  };

  void start(const TypedGraph<Id>& graph, const TypedRule& rule, std::span<const TypedSeeds> seeds,
             std::size_t index, std::uint64_t seed, std::uint64_t epoch, std::uint64_t batch,
             TypedArrays<Id>& out);
  void add_seed(const TypedRule& rule, std::size_t type, std::int64_t seed, std::size_t place,
                std::size_t given, TypeArrays<Id>& out);
  std::int64_t known(const TypedRule& rule, std::size_t type) const {
    return rule.trees ? paired_[type].known() : plain_[type].known();
  }
  template <bool kTrees>
  void expand(const TypedGraph<Id>& graph, const TypedRule& rule, std::size_t relation,
              std::size_t layer, Span rows, TypedArrays<Id>& out);
  template <bool kTrees, typename Draw>
  void run(const TypedRelation<Id>& relation, std::size_t number, Span rows, Draw& draw,
           RelationArrays& edges, TypedArrays<Id>& out);
  template <typename Draw>
  std::int64_t find_rows(const TypedRelation<Id>& relation, std::int64_t last_edges, Span rows,
                         const Draw& draw, const TypeArrays<Id>& target);
  void cut_to_times(const TypedRelation<Id>& relation, Span rows, const TypeArrays<Id>& target);
  template <bool kTrees>
  void read_ids(const TypedRelation<Id>& relation, Span block, RelationArrays& edges,
                const TypeArrays<Id>& target);
  template <bool kTrees>
  void renumber(const TypedRelation<Id>& relation, Span block, RelationArrays& edges,
                TypedArrays<Id>& out);
  void induce(const TypedGraph<Id>& graph, const TypedRule& rule, TypedArrays<Id>& out);
  FrontierRow<Id> row(std::int64_t i, const TypeArrays<Id>& target) const {
    const auto at = static_cast<std::size_t>(i - first_);
    return {target.node[static_cast<std::size_t>(i)], start_[at], degree_[at]};
  }

  std::vector<Relabel> plain_;         ///< one a type
  std::vector<TreeNumbers> paired_;    ///< one a type, with trees
  std::vector<std::uint64_t> keys_;    ///< of the minibatch, or of each tree
  std::vector<std::uint64_t> layers_;  ///< the same for the layer at hand
  std::vector<std::int64_t> times_;    ///< of each tree; empty: any
  std::int64_t first_ = 0;             ///< first row of the step at hand
  std::int64_t before_ = 0;            ///< edges of the relation before it
  Buffer<std::int64_t> start_;
  Buffer<std::uint32_t> degree_;
  Buffer<Id> wide_;  ///< 64-bit ids on their way to renumbering; 32-bit ones wait in `row`
  Buffer<std::uint32_t> picks_;
  AliasScratch scratch_;
  std::vector<AliasCell> cells_;
};

/// Samples minibatches first_batch, first_batch + 1, ... on `threads` threads into *out[i]; all
/// seeds are cut into as many. `workers` holds at least `threads` states.
template <typename Id>
void sample_typed(const TypedGraph<Id>& graph, const TypedRule& rule,
                  std::span<const TypedSeeds> seeds, std::uint64_t seed, std::uint64_t epoch,
                  std::uint64_t first_batch, int threads, std::span<TypedWorker<Id>> workers,
                  std::span<TypedArrays<Id>* const> out);

}  // namespace foregather
