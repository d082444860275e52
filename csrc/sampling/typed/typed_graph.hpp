// Typed graph: node types, relations between them, and a minibatch of both; views and buffers.
//
// Types and relations are numbers here; Python numbers them by sorted name. A relation has the CSC
// form of types.hpp: for each vertex of its target type the sources, which are of its source type.
// Rows of a relation with `time` ascend by time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/buffer.hpp"
#include "sampling/nodewise/expand.hpp"
#include "sampling/nodewise/labor.hpp"
#include "sampling/picking/alias.hpp"

namespace foregather {

template <typename Id>
struct TypedRelation {
  Topology<Id> graph;
  std::size_t source = 0, target = 0;       ///< numbers of types
  std::vector<std::int64_t> fanouts;        ///< one per layer; 0: not sampled, -1: all
  EdgeWeights weights = {};                 ///< no cells: all edges alike
  std::span<const std::int64_t> time = {};  ///< [E] or empty
  std::span<const float> values = {};       ///< of LABOR's matrix, [E]; empty: 1 / degree

  /// Whether any layer samples it.
  bool used() const {
    for (const std::int64_t number : fanouts) {
      if (number != 0) return true;
    }
    return false;
  }
};

template <typename Id>
struct TypedGraph {
  std::vector<std::int64_t> num_nodes;  ///< of each type
  std::vector<TypedRelation<Id>> relations;
};

/// What to sample; the fan-outs are in the relations.
struct TypedRule {
  std::size_t layers = 0;
  bool replace = false;
  bool trees = false;    ///< each seed has a tree of its own
  bool last = false;     ///< of a timed relation the last edges, and not drawn ones
  bool induced = false;  ///< all edges between the vertices met, in place of those sampled
  bool labor = false;    ///< by LABOR (labor.hpp); then without replacement, last and induced
  bool same = false;     ///< LABOR's numbers of layer 0 serve all layers
  LaborWeight weight = LaborWeight::kNone;  ///< of LABOR's edges
};

/// The seeds of one type; seed s of minibatch i is one of seeds[ptr[i] .. ptr[i + 1]).
struct TypedSeeds {
  std::size_t type = 0;
  std::span<const std::int64_t> seeds, ptr;
  std::span<const std::int64_t> rows;   ///< the number each tree is keyed by; empty without trees
  std::span<const std::int64_t> times;  ///< the latest time each tree may see; empty: any
};

/// Throws InputError unless groups of seeds are of ascending types of the graph, and cut into
/// `count` minibatches.
inline void check_groups(std::span<const TypedSeeds> seeds, std::size_t types, std::size_t count) {
  std::size_t next = 0;
  for (const TypedSeeds& group : seeds) {
    check_cuts(group.seeds, group.ptr, count);
    if (group.type < next || group.type >= types) {
      throw InputError("seeds are not given by ascending types of the graph");
    }
    next = group.type + 1;
  }
}

/// Vertices of one type in a minibatch.
template <typename Id>
struct TypeArrays {
  Buffer<Id> node;
  Buffer<std::uint32_t> tree;               ///< of each vertex; only with trees
  std::vector<std::int64_t> num_nodes;      ///< L + 1, cumulative
  std::vector<std::int64_t> seed_position;  ///< empty when no seed was repeated
};

/// Edges of one relation in a minibatch.
struct RelationArrays {
  Buffer<std::uint32_t> row, col;
  Buffer<std::int64_t> edge;
  Buffer<float> weight;                 ///< only if `weighted`
  bool weighted = false;                ///< whether edges have weights
  std::vector<std::int64_t> num_edges;  ///< L, or one number if induced
  std::int64_t count = 0;

  void make_room(std::int64_t edges, std::int64_t kept) {
    const auto all = static_cast<std::size_t>(edges), old = static_cast<std::size_t>(kept);
    row.reserve(all, old);
    col.reserve(all, old);
    edge.reserve(all, old);
    if (weighted) weight.reserve(all, old);
  }
};

/// One sampled minibatch; see HeteroSample in Python for what the arrays mean.
template <typename Id>
struct TypedArrays {
  std::vector<TypeArrays<Id>> types;
  std::vector<RelationArrays> relations;
  bool in_trees = false;
};

}  // namespace foregather
