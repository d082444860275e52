// Trees: minibatches whose seeds share nothing, each with a tree of its own (PyG's `disjoint`).
//
// A tree is what the sampler makes of its seed alone, as the minibatch whose number is the input
// row of the seed: a pure function of (seed, epoch, row, layer, vertex), whatever other rows are in
// the minibatch. Trees are sampled one after another into one place and then joined layer by layer:
// all seeds, what layer 0 met of tree 0, of tree 1, ..., what layer 1 met of tree 0, ...; edges
// likewise by layer and tree.
// So targets of a layer are a prefix of its sources, and `col` ascends, as in other minibatches.
//
// Memory: a second copy of the largest minibatch for each thread, kept for the next one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "parallel/buffer.hpp"
#include "parallel/pool.hpp"
#include "sampling/links/excluded.hpp"
#include "sampling/nodewise/expand.hpp"

namespace foregather {

/// The trees of one minibatch, one after another; the state of one thread.
template <typename Id>
class TreeJoin {
 public:
  /// Forgets all trees.
  void begin(std::size_t layers) {
    layers_ = layers;
    nodes_ = edges_ = 0;
    fresh_.clear();
    spans_.clear();
  }
  /// What the next tree is sampled into; add() follows.
  SampleArrays<Id>& one() { return one_; }
  /// Appends one().
  void add() { add(one_); }
  /// Appends a tree. Throws InputError if all nodes, or all edges, are too many.
  void add(const SampleArrays<Id>& tree);
  /// All trees as one minibatch.
  void join(bool weighted, SampleArrays<Id>& out);

  /// Bytes held between calls.
  std::size_t bytes() const {
    const std::size_t counts = (fresh_.capacity() + spans_.capacity()) * sizeof(std::int64_t);
    return bytes_of(one_) + bytes_of(all_) + moved_.bytes() + counts;
  }

 private:
  static std::size_t bytes_of(const SampleArrays<Id>& a) {
    return a.node.bytes() + a.row.bytes() + a.col.bytes() + a.edge.bytes() + a.weight.bytes();
  }
  // Where the part of each tree in each layer begins; `counts` has a row per tree. `ends` gets the
  // end of each layer.
  static std::vector<std::int64_t> places(const std::vector<std::int64_t>& counts,
                                          std::size_t layers, std::vector<std::int64_t>& ends);

  std::size_t layers_ = 0;
  std::int64_t nodes_ = 0, edges_ = 0;
  SampleArrays<Id> one_, all_;
  std::vector<std::int64_t> fresh_;  ///< the seed, new nodes of each layer: layers + 1 per tree
  std::vector<std::int64_t> spans_;  ///< edges of each layer, `layers` per tree
  Buffer<std::uint32_t> moved_;      ///< where the nodes of one tree went
};

template <typename Id>
void TreeJoin<Id>::add(const SampleArrays<Id>& tree) {
  const std::int64_t nodes = tree.num_nodes.back();
  std::int64_t edges = 0, before = 0;
  for (const std::int64_t count : tree.num_edges) {
    spans_.push_back(count);
    edges += count;
  }
  for (const std::int64_t known : tree.num_nodes) {
    fresh_.push_back(known - before);
    before = known;
  }
  if (std::max(nodes_ + nodes, edges_ + edges) > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(
        "a minibatch of more than 2^31 vertices or edges; lower the fan-outs or the batch size");
  }
  all_.weighted = tree.weighted;
  all_.make_room(nodes_ + nodes, nodes_, edges_ + edges, edges_);
  std::copy_n(tree.node.data(), nodes, all_.node.data() + nodes_);
  std::copy_n(tree.row.data(), edges, all_.row.data() + edges_);
  std::copy_n(tree.col.data(), edges, all_.col.data() + edges_);
  std::copy_n(tree.edge.data(), edges, all_.edge.data() + edges_);
  if (tree.weighted) std::copy_n(tree.weight.data(), edges, all_.weight.data() + edges_);
  nodes_ += nodes;
  edges_ += edges;
}

template <typename Id>
std::vector<std::int64_t> TreeJoin<Id>::places(const std::vector<std::int64_t>& counts,
                                               std::size_t layers,
                                               std::vector<std::int64_t>& ends) {
  std::vector<std::int64_t> first(counts.size());
  std::int64_t at = 0;
  ends.clear();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    for (std::size_t i = layer; i < counts.size(); i += layers) {
      first[i] = at;
      at += counts[i];
    }
    ends.push_back(at);
  }
  return first;
}

template <typename Id>
void TreeJoin<Id>::join(bool weighted, SampleArrays<Id>& out) {
  const std::size_t parts = layers_ + 1, trees = fresh_.size() / parts;
  std::vector<std::int64_t> edge_ends;
  const auto node_place = places(fresh_, parts, out.num_nodes);
  const auto edge_place = places(spans_, layers_, edge_ends);
  out.weighted = weighted;
  out.in_trees = true;
  out.seed_position.clear();
  out.num_edges.clear();
  for (std::size_t layer = 0; layer < layers_; ++layer) {
    out.num_edges.push_back(edge_ends[layer] - (layer > 0 ? edge_ends[layer - 1] : 0));
  }
  out.make_room(nodes_, 0, edges_, 0);
  out.tree.reserve(static_cast<std::size_t>(nodes_) + 1);
  std::int64_t node = 0, edge = 0;  // what of `all` was copied
  for (std::size_t tree = 0; tree < trees; ++tree) {
    std::int64_t local = 0;
    for (std::size_t i = tree * parts; i < (tree + 1) * parts; ++i) {
      const std::int64_t count = fresh_[i], to = node_place[i];
      std::copy_n(all_.node.data() + node + local, count, out.node.data() + to);
      std::fill_n(out.tree.data() + to, count, static_cast<std::uint32_t>(tree));
      moved_.reserve(static_cast<std::size_t>(local + count), static_cast<std::size_t>(local));
      for (std::int64_t n = 0; n < count; ++n) {
        moved_[static_cast<std::size_t>(local + n)] = static_cast<std::uint32_t>(to + n);
      }
      local += count;
    }
    for (std::size_t i = tree * layers_; i < (tree + 1) * layers_; ++i) {
      const std::int64_t count = spans_[i], to = edge_place[i];
      for (std::int64_t e = 0; e < count; ++e) {
        const auto from = static_cast<std::size_t>(edge + e), at = static_cast<std::size_t>(to + e);
        out.row[at] = moved_[all_.row[from]];
        out.col[at] = moved_[all_.col[from]];
        out.edge[at] = all_.edge[from];
      }
      if (weighted) std::copy_n(all_.weight.data() + edge, count, out.weight.data() + to);
      edge += count;
    }
    node += local;
  }
}

/// The rule by which trees are sampled: each has numbers of its own, also where minibatches in a
/// row share theirs.
template <typename Rule>
Rule rule_of_trees(Rule rule) {
  if constexpr (requires { rule.every; }) rule.every = 1;
  return rule;
}

/// Samples minibatches of trees on `threads` threads: minibatch i has the seeds
/// seeds[ptr[i] .. ptr[i + 1]), seed s the input row rows[s], and goes to *out[i]. The rule expands
/// once. `workers` and `joins` hold at least `threads` states. What is `excluded` is left out of
/// the tree it names.
template <typename Id, typename Worker, typename Rule>
void sample_trees(const Topology<Id>& graph, const Rule& rule, std::span<const std::int64_t> seeds,
                  std::span<const std::int64_t> rows, std::span<const std::int64_t> ptr,
                  std::uint64_t seed, std::uint64_t epoch, int threads, std::span<Worker> workers,
                  std::span<TreeJoin<Id>> joins, std::span<SampleArrays<Id>* const> out,
                  const ExcludedEdges& excluded = {}) {
  check_cuts(seeds, ptr, out.size());
  excluded.check(out.size());
  if (rows.size() != seeds.size()) throw InputError("rows does not have an entry for each seed");
  if (!rule.once) throw InputError("trees are expanded once, not per layer");
  const Rule own = rule_of_trees(rule);
  parallel_tasks(static_cast<std::int64_t>(out.size()), threads, [&](std::int64_t i, int thread) {
    const auto k = static_cast<std::size_t>(i);
    Worker& worker = workers[static_cast<std::size_t>(thread)];
    TreeJoin<Id>& trees = joins[static_cast<std::size_t>(thread)];
    trees.begin(rule.fanouts.size());
    worker.excluded().begin(excluded, k, graph);
    const auto first = static_cast<std::size_t>(ptr[k]),
               last = static_cast<std::size_t>(ptr[k + 1]);
    for (std::size_t s = first; s < last; ++s) {
      check_seed(s - first, seeds[s], graph.num_nodes());
      worker.excluded().select(static_cast<std::int64_t>(s - first));
      worker.sample(graph, own, seeds.subspan(s, 1), seed, epoch,
                    static_cast<std::uint64_t>(rows[s]), trees.one());
      trees.add();
    }
    trees.join(gives_weights(rule), *out[k]);
  });
}

}  // namespace foregather
