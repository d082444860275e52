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
// A minibatch is the work of one thread, or of a team (typed_team.hpp) where there are fewer
// minibatches than threads. Edges that a minibatch (or a tree) leaves out of a relation are taken
// out of its rows before anything is cut or drawn (excluded.hpp). Memory for each thread: 4 bytes
// per vertex of the graph, or with trees 32 bytes and more per vertex of the minibatch; 12 bytes
// per frontier row, in a team for each relation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/buffer.hpp"
#include "sampling/keys.hpp"
#include "sampling/links/excluded.hpp"
#include "sampling/numbering/relabel.hpp"
#include "sampling/typed/tree_numbers.hpp"
#include "sampling/typed/typed_graph.hpp"

namespace foregather {

/// One relation of one layer on its way: which rows it expands, and where they are.
template <typename Id>
struct TypedStep {
  const TypedRelation<Id>* relation = nullptr;
  std::size_t number = 0;                  ///< of the relation
  std::int64_t fanout = 0;                 ///< edges of a row
  std::int64_t cut = -1;                   ///< how many of the last edges of a row at most; -1: all
  bool timed = false;                      ///< rows are cut to the times of their trees
  const ExcludedRows* excluded = nullptr;  ///< what rows leave out, if any does
  std::int64_t first = 0, last = 0;        ///< its rows: local ids of the target type
  std::int64_t before = 0;                 ///< edges of the relation before this layer
  Buffer<std::int64_t> start;
  Buffer<std::uint32_t> degree;
  Buffer<Id> wide;  ///< 64-bit ids on their way to renumbering; 32-bit ones wait in `row`

  FrontierRow<Id> row(std::int64_t i, const TypeArrays<Id>& target) const {
    const auto at = static_cast<std::size_t>(i - first);
    return {target.node[static_cast<std::size_t>(i)], start[at], degree[at], i};
  }
  std::size_t bytes() const { return start.bytes() + degree.bytes() + wide.bytes(); }
};

/// The state of one thread.
template <typename Id>
class TypedWorker {
 public:
  /// Samples minibatch `index` of the seeds as minibatch number `batch` of its epoch, on a thread
  /// for each of `team`, of which this is the first. `excluded` is what it leaves out of each
  /// relation, or nothing. Throws InputError for a seed that is not a vertex.
  void sample(const TypedGraph<Id>& graph, const TypedRule& rule, std::span<const TypedSeeds> seeds,
              std::size_t index, std::uint64_t seed, std::uint64_t epoch, std::uint64_t batch,
              TypedArrays<Id>& out, std::span<TypedWorker> team = {},
              std::span<const ExcludedEdges> excluded = {});
  /// Bytes held between calls.
  std::size_t bytes() const;

 private:
  static constexpr std::int64_t kAhead = 24;  // rows ahead whose indptr is asked for
  static constexpr std::int64_t kAsk = 24;    // rows ahead that a Draw is asked for
  static constexpr std::int64_t kTouch = 32;  // rows whose pages are looked up at once

  struct Span {
    std::int64_t first = 0, last = 0;
  };
  struct Share;
  struct Shares;

  void reset(const TypedGraph<Id>& graph, const TypedRule& rule, std::int64_t trees,
             TypedArrays<Id>& out);
  void start(const TypedGraph<Id>& graph, const TypedRule& rule, std::span<const TypedSeeds> seeds,
             std::size_t index, std::uint64_t seed, std::uint64_t epoch, std::uint64_t batch,
             TypedArrays<Id>& out);
  void add_seed(const TypedRule& rule, std::size_t type, std::int64_t seed, std::size_t place,
                std::size_t given, TypeArrays<Id>& out);
  std::int64_t known(const TypedRule& rule, std::size_t type) const {
    return rule.trees ? paired_[type].known() : plain_[type].known();
  }
  bool set(TypedStep<Id>& step, const TypedGraph<Id>& graph, const TypedRule& rule,
           std::size_t relation, std::size_t layer, Span rows, const TypedArrays<Id>& out);
  bool leaves_out(const TypedRule& rule, std::size_t relation, std::size_t target, Span rows);
  template <typename Use>
  void with_draw(const TypedGraph<Id>& graph, const TypedRule& rule, const TypedStep<Id>& step,
                 std::uint64_t key, const Use& use);
  template <bool kTrees>
  void expand(const TypedGraph<Id>& graph, const TypedRule& rule, std::size_t layer,
              std::span<const Span> frontier, TypedArrays<Id>& out);
  std::uint64_t key_of(const TypedStep<Id>& step, std::int64_t i,
                       const TypeArrays<Id>& target) const {
    return relation_key(layers_[target.tree[static_cast<std::size_t>(i)]], step.number);
  }

  // typed_step.hpp
  template <bool kTrees, typename Draw>
  void run(TypedStep<Id>& step, Draw& draw, TypedArrays<Id>& out);
  template <typename Draw>
  std::int64_t find_rows(TypedStep<Id>& step, Span rows, const Draw& draw,
                         const TypeArrays<Id>& target);
  [[gnu::always_inline]] static void touch_block(const TypedStep<Id>& step, std::int64_t i,
                                                 Span rows);
  void cut_to_times(TypedStep<Id>& step, Span rows, const TypeArrays<Id>& target);
  template <bool kTrees>
  void make_room(TypedStep<Id>& step, std::int64_t nodes, std::int64_t drawn, std::int64_t filled,
                 TypedArrays<Id>& out);
  template <bool kTrees, typename Draw>
  std::int64_t draw_row(const TypedStep<Id>& step, std::int64_t i, std::int64_t at, Draw& draw,
                        RelationArrays& edges, const TypeArrays<Id>& target) const;
  template <bool kTrees, bool kSoon>
  void read_ids(TypedStep<Id>& step, Span block, RelationArrays& edges,
                const TypeArrays<Id>& target) const;
  template <bool kTrees>
  void renumber(TypedStep<Id>& step, Span block, RelationArrays& edges, TypedArrays<Id>& out);

  // typed_team.hpp
  template <bool kTrees>
  void expand_by_team(const TypedGraph<Id>& graph, const TypedRule& rule, std::size_t layer,
                      std::span<const Span> frontier, std::span<TypedWorker> team,
                      TypedArrays<Id>& out);
  std::int64_t deal(const TypedGraph<Id>& graph, const TypedRule& rule, std::size_t layer,
                    std::span<const Span> frontier, std::span<TypedWorker> team, Shares& shares,
                    TypedArrays<Id>& out);
  template <bool kTrees>
  void work(const TypedGraph<Id>& graph, const TypedRule& rule, std::size_t own, TypedWorker& mate,
            Shares& shares, TypedArrays<Id>& out);
  template <bool kTrees, typename Draw>
  void draw_share(TypedStep<Id>& step, const Share& share, Draw& draw, TypedArrays<Id>& out) const;
  template <bool kTrees>
  void renumber_share(TypedStep<Id>& step, const Share& share, TypedArrays<Id>& out);

  void induce(const TypedGraph<Id>& graph, const TypedRule& rule,
              std::span<const ExcludedEdges> excluded, std::size_t index, TypedArrays<Id>& out);

  std::vector<Relabel> plain_;         ///< one a type
  std::vector<TreeNumbers> paired_;    ///< one a type, with trees
  std::vector<std::uint64_t> keys_;    ///< of the minibatch, or of each tree
  std::vector<std::uint64_t> layers_;  ///< the same for the layer at hand
  std::vector<std::int64_t> times_;    ///< of each tree; empty: any
  std::vector<TypedStep<Id>> steps_;   ///< one, or in a team one a relation
  Buffer<std::uint32_t> picks_;
  AliasScratch scratch_;
  std::vector<ExcludedRows> excluded_;  ///< one a relation, or none
  std::vector<double> weights_;
  std::size_t team_ = 1;  ///< threads that are at work on this minibatch
};

/// Samples minibatches first_batch, first_batch + 1, ... on `threads` threads into *out[i]; all
/// seeds are cut into as many. `workers` holds at least `threads` states. Where there are fewer
/// minibatches than threads, each is the work of a team. `excluded` is what they leave out of each
/// relation, or empty.
template <typename Id>
void sample_typed(const TypedGraph<Id>& graph, const TypedRule& rule,
                  std::span<const TypedSeeds> seeds, std::uint64_t seed, std::uint64_t epoch,
                  std::uint64_t first_batch, int threads, std::span<TypedWorker<Id>> workers,
                  std::span<TypedArrays<Id>* const> out,
                  std::span<const ExcludedEdges> excluded = {});

}  // namespace foregather
