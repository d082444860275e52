// Expand: from the frontier of a layer to its edges in local numbers; what the node-wise samplers
// (Neighbor, Labor) share. A sampler brings only its Draw: which edges of a row are taken.
//
// One minibatch is the work of one thread, or of a team (team_layer.hpp) where there are fewer
// minibatches than threads. The loop of a thread is a pipeline, row by row: prefetch what the draws
// of a later row read; draw positions and prefetch the ids they point to; read the ids of the row
// kLag before and prefetch their entries in the relabelling table; renumber the row kLag before
// that. So every access that misses the caches was prefetched some hundred instructions earlier.
// The stages take turns at every row, not at blocks of rows: a core has a few dozen requests to
// memory under way, and a block asks for more at once, waits, and then has none while it computes.
// Blocks of 16 rows took 1.4 times as long (1M and 10M vertices, fan-outs 15, 10, 5).
//
// A Draw has
//     std::int64_t likely(row)       roughly how many edges the row gives, for the first room
//     std::int64_t most(row)         edges the row gives at most
//     bool whole(row)                whether all edges are taken, as they lie
//     std::uint32_t operator()(row, edge)   writes ascending positions in the graph, says how many
//     void ask(row)                  prefetches what operator() reads, inlined by force (see
//                                    prefetch_range); only called if kAsks
//     void weigh(row, edge, count, weight)  weights of the edges taken; only called if weighs()
//     void use(key)                  the rows that follow have another key; only typed sampling
// and constants kAsks, kReads (operator() reads the ids itself, so they need no prefetch) and
// kExact (likely and most are what the row gives).
//
// Memory: 4 bytes per vertex of the graph for each thread (relabel.hpp), 12 bytes per frontier row,
// and the results. Everything is kept and reused for the next minibatch.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "parallel/buffer.hpp"
#include "parallel/pool.hpp"
#include "sampling/numbering/relabel.hpp"

namespace foregather {

/// Topology as in types.hpp; a view, the caller keeps the arrays.
template <typename Id>
struct Topology {
  std::span<const std::int64_t> indptr;
  std::span<const Id> indices;
  std::int64_t num_nodes() const { return static_cast<std::int64_t>(indptr.size()) - 1; }
};

/// One sampled minibatch; see Sample in Python for what the arrays mean.
template <typename Id>
struct SampleArrays {
  Buffer<Id> node;
  Buffer<std::uint32_t> row, col;
  Buffer<std::int64_t> edge;
  Buffer<float> weight;                     ///< only if `weighted`
  bool weighted = false;                    ///< whether the edges have weights
  std::vector<std::int64_t> num_nodes;      ///< L + 1, cumulative
  std::vector<std::int64_t> num_edges;      ///< L
  std::vector<std::int64_t> seed_position;  ///< empty when no seed was repeated
  Buffer<std::uint32_t> tree;               ///< of each node; only if `in_trees`
  bool in_trees = false;                    ///< whether seeds have trees of their own (trees.hpp)

  /// Room for `nodes` and `edges` in all; the first `known` and `drawn` are kept.
  void make_room(std::int64_t nodes, std::int64_t known, std::int64_t edges, std::int64_t drawn) {
    const auto all = static_cast<std::size_t>(edges), kept = static_cast<std::size_t>(drawn);
    node.reserve(static_cast<std::size_t>(nodes) + 1, static_cast<std::size_t>(known));
    row.reserve(all, kept);
    col.reserve(all, kept);
    edge.reserve(all, kept);
    if (weighted) weight.reserve(all, kept);
  }
};

/// Prefetches the cache lines of `count` elements, which need not begin with a line. Inlined by
/// force: to GCC a function that only prefetches has no effect, and calls of it are dropped.
template <typename T>
[[gnu::always_inline]] inline void prefetch_range(const T* first, std::size_t count) {
  constexpr std::size_t kLine = 64 / sizeof(T);
  for (std::size_t i = 0; i < count; i += kLine) __builtin_prefetch(first + i);
  if (count > 0) __builtin_prefetch(first + count - 1);
}

/// A row of the frontier.
template <typename Id>
struct FrontierRow {
  Id node;
  std::int64_t begin;  ///< position of its first edge
  std::uint32_t degree;
  std::int64_t local = 0;  ///< its local id
};

/// Ascending positions of a row, of those that are not in `gaps`, become positions of the row.
inline void step_over(std::span<const std::int64_t> gaps, std::int64_t* edge, std::uint32_t count) {
  std::size_t passed = 0;
  for (std::uint32_t p = 0; p < count; ++p) {
    while (passed < gaps.size() && gaps[passed] <= edge[p] + static_cast<std::int64_t>(passed)) {
      ++passed;
    }
    edge[p] += static_cast<std::int64_t>(passed);
  }
}

/// Where the last rows ended that a stage of the pipeline was through with.
class Trail {
 public:
  static constexpr std::size_t kLag = 16;  ///< rows between two stages

  explicit Trail(std::int64_t at) { ends_.fill(at); }
  /// Adds the end of a row; returns that of the row kLag before.
  std::int64_t push(std::int64_t end) { return std::exchange(ends_[turn_++ % kLag], end); }

 private:
  std::array<std::int64_t, kLag> ends_;
  std::size_t turn_ = 0;
};

/// The state of one thread: relabelling table and scratch.
template <typename Id>
class Expansion {
 public:
  /// Begins a minibatch with its seeds. Throws InputError for a seed that is not a vertex.
  void start(const Topology<Id>& graph, std::span<const std::int64_t> seeds, bool weighted,
             SampleArrays<Id>& out);
  /// Samples the rows of the vertices with local ids from `first` on.
  template <typename Draw>
  void layer(const Topology<Id>& graph, std::int64_t first, Draw& draw, SampleArrays<Id>& out);
  /// The same on a thread for each Draw, whose likely() must be exact; see team_layer.hpp.
  template <typename Draw>
  void layer_by_team(const Topology<Id>& graph, std::int64_t first, std::span<Draw> draws,
                     SampleArrays<Id>& out);

  /// Vertices met so far.
  std::int64_t known() const { return local_.known(); }
  /// The local id of a vertex, or Relabel::kNone.
  std::uint32_t find(std::int64_t v) const { return local_.find(v); }
  /// Bytes held between calls.
  std::size_t bytes() const {
    return local_.bytes() + start_.bytes() + degree_.bytes() + wide_.bytes();
  }

 private:
  static constexpr std::int64_t kAhead = 24;  // rows ahead whose indptr is asked for
  static constexpr std::int64_t kAsk = 24;    // rows ahead that a Draw is asked for

  // Edges [first, last) of the minibatch.
  struct Block {
    std::int64_t first = 0, last = 0;
  };
  void begin_rows(std::int64_t first, std::int64_t last);
  template <typename Draw>
  std::int64_t find_rows(const Topology<Id>& graph, std::int64_t first, std::int64_t last,
                         Draw& draw, const SampleArrays<Id>& out);
  template <typename Draw>
  void draw_share(const Topology<Id>& graph, std::int64_t from, std::int64_t to, std::int64_t at,
                  Draw& draw, SampleArrays<Id>& out);
  void renumber_shares(Block shares, SampleArrays<Id>& out);
  template <typename Draw>
  std::int64_t draw_row(const Topology<Id>& graph, std::int64_t i, std::int64_t at, Draw& draw,
                        SampleArrays<Id>& out);
  template <bool kAsk>
  void read_block(const Topology<Id>& graph, Block block, SampleArrays<Id>& out);
  void renumber_block(Block block, SampleArrays<Id>& out);
  FrontierRow<Id> row(std::int64_t i, const SampleArrays<Id>& out) const {
    const auto at = static_cast<std::size_t>(i - first_);
    return {out.node[static_cast<std::size_t>(i)], start_[at], degree_[at], i};
  }

  Relabel local_;
  std::int64_t drawn_ = 0;  ///< edges of the layers before
  std::int64_t first_ = 0;  ///< local id of the first row of the layer
  Buffer<std::int64_t> start_;
  Buffer<std::uint32_t> degree_;
  Buffer<Id> wide_;  ///< 64-bit ids on their way to renumbering; 32-bit ones wait in `row`
};

/// Throws InputError unless seed number i is one of `nodes` vertices.
inline void check_seed(std::size_t i, std::int64_t seed, std::int64_t nodes) {
  if (seed < 0 || seed >= nodes) {
    throw InputError("seed " + std::to_string(i) + " is node " + std::to_string(seed) +
                     ", but the graph has " + std::to_string(nodes) + " nodes (ids are 0 to N-1)");
  }
}

template <typename Id>
void Expansion<Id>::start(const Topology<Id>& graph, std::span<const std::int64_t> seeds,
                          bool weighted, SampleArrays<Id>& out) {
  const std::int64_t n = graph.num_nodes();
  local_.begin(n);
  drawn_ = 0;
  out.weighted = weighted;
  out.in_trees = false;
  out.node.reserve(seeds.size() + 1);
  out.num_nodes.clear();
  out.num_edges.clear();
  out.seed_position.clear();
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    check_seed(i, seeds[i], n);
    const std::int64_t before = local_.known();
    const std::uint32_t id = local_.insert(seeds[i]);
    if (id < before && out.seed_position.empty()) {  // the first repeat: all before were in order
      out.seed_position.resize(seeds.size());
      for (std::size_t j = 0; j < i; ++j) out.seed_position[j] = static_cast<std::int64_t>(j);
    }
    out.node[id] = static_cast<Id>(seeds[i]);
    if (!out.seed_position.empty()) out.seed_position[i] = id;
  }
  out.num_nodes.push_back(local_.known());
}

template <typename Id>
void Expansion<Id>::begin_rows(std::int64_t first, std::int64_t last) {
  start_.reserve(static_cast<std::size_t>(last - first));
  degree_.reserve(static_cast<std::size_t>(last - first));
  first_ = first;
}

// Reads where rows of the frontier are; returns about how many edges they give.
template <typename Id>
template <typename Draw>
std::int64_t Expansion<Id>::find_rows(const Topology<Id>& graph, std::int64_t first,
                                      std::int64_t last, Draw& draw, const SampleArrays<Id>& out) {
  const std::int64_t* indptr = graph.indptr.data();
  const Id* node = out.node.data();
  std::int64_t total = 0;
  for (std::int64_t i = first; i < last; ++i) {
    if (i + kAhead < last) __builtin_prefetch(&indptr[node[i + kAhead]]);
    const std::int64_t begin = indptr[node[i]], degree = indptr[node[i] + 1] - begin;
    start_[static_cast<std::size_t>(i - first_)] = begin;
    degree_[static_cast<std::size_t>(i - first_)] = static_cast<std::uint32_t>(degree);
    total += draw.likely(row(i, out));
  }
  return total;
}

// Positions of row i, whose edges begin with `at`; returns where they end.
template <typename Id>
template <typename Draw>
std::int64_t Expansion<Id>::draw_row(const Topology<Id>& graph, std::int64_t i, std::int64_t at,
                                     Draw& draw, SampleArrays<Id>& out) {
  const Id* indices = graph.indices.data();
  std::int64_t* edge = out.edge.data() + at;
  std::uint32_t* col = out.col.data() + at;
  const FrontierRow<Id> own = row(i, out);
  std::uint32_t count = own.degree;
  if (draw.whole(own)) {
    for (std::uint32_t p = 0; p < count; ++p) edge[p] = own.begin + p;
    prefetch_range(indices + own.begin, count);
  } else {
    count = draw(own, edge);
    for (std::uint32_t p = 0; p < count && !Draw::kReads; ++p)
      __builtin_prefetch(&indices[edge[p]]);
  }
  for (std::uint32_t p = 0; p < count; ++p) col[p] = static_cast<std::uint32_t>(i);
  if (out.weighted) draw.weigh(own, edge, count, out.weight.data() + at);
  return at + count;
}

// Ids of a block, which must have room in `wide_`; kAsk: this thread renumbers them soon.
template <typename Id>
template <bool kAsk>
void Expansion<Id>::read_block(const Topology<Id>& graph, Block block, SampleArrays<Id>& out) {
  const Id* indices = graph.indices.data();
  const std::int64_t* edge = out.edge.data();
  for (std::int64_t e = block.first; e < block.last; ++e) {
    const Id v = indices[edge[e]];
    if constexpr (kAsk) local_.prefetch(static_cast<std::int64_t>(v));
    if constexpr (sizeof(Id) > 4) {
      wide_[static_cast<std::size_t>(e - drawn_)] = v;
    } else {
      out.row[static_cast<std::size_t>(e)] = v;
    }
  }
}

template <typename Id>
void Expansion<Id>::renumber_block(Block block, SampleArrays<Id>& out) {
  std::uint32_t* row = out.row.data() + block.first;
  const auto count = static_cast<std::size_t>(block.last - block.first);
  if constexpr (sizeof(Id) > 4) {
    local_.number(wide_.data() + (block.first - drawn_), count, out.node.data(), row);
  } else {
    local_.number(row, count, out.node.data(), row);
  }
}

template <typename Id>
template <typename Draw>
void Expansion<Id>::layer(const Topology<Id>& graph, std::int64_t first, Draw& draw,
                          SampleArrays<Id>& out) {
  const std::int64_t last = known();
  begin_rows(first, last);
  const std::int64_t likely = find_rows(graph, first, last, draw, out);
  out.make_room(last + likely, last, drawn_ + likely, drawn_);
  auto ask = [&](std::int64_t i) __attribute__((always_inline)) {
    if constexpr (Draw::kAsks) {
      if (i < last) draw.ask(row(i, out));
    }
  };
  auto read_ahead = [&](Block block) {
    if constexpr (sizeof(Id) > 4) {
      wide_.reserve(static_cast<std::size_t>(block.last - drawn_),
                    static_cast<std::size_t>(block.first - drawn_));
    }
    read_block<true>(graph, block, out);
  };
  std::int64_t at = drawn_, read = at, numbered = at;
  Trail drawn_rows(at), read_rows(at);
  for (std::int64_t i = first; i < first + kAsk; ++i) ask(i);
  for (std::int64_t i = first; i < last; ++i) {
    const std::int64_t most = draw.most(row(i, out));
    // Edges of the rows before that wait for renumbering may all be new vertices.
    const std::int64_t nodes = known() + (at - numbered) + most;
    local_.require_room(nodes);
    out.make_room(nodes, known(), at + most, at);
    ask(i + kAsk);
    at = draw_row(graph, i, at, draw, out);
    const std::int64_t to_read = drawn_rows.push(at), to_number = read_rows.push(to_read);
    read_ahead({read, to_read});
    renumber_block({numbered, to_number}, out);
    read = to_read;
    numbered = to_number;
  }
  read_ahead({read, at});
  renumber_block({numbered, at}, out);
  out.num_nodes.push_back(known());
  out.num_edges.push_back(at - drawn_);
  drawn_ = at;
}

/// Threads worth waking for minibatches with this number of seeds: one for each share of edges that
/// takes longer than a thread takes to come. How many edges there will be is not known, so they are
/// bounded, by the fan-outs and by `most`.
inline int useful_threads(int threads, std::span<const std::int64_t> fanouts, std::int64_t seeds,
                          std::int64_t most) {
  constexpr std::int64_t kShare = std::int64_t{1} << 15;
  if (threads <= 0) threads = default_threads();
  std::int64_t edges = 0, rows = seeds;
  for (const std::int64_t fanout : fanouts) {
    if (edges >= most) break;
    rows = fanout < 0 || rows > most / fanout ? most : rows * fanout;
    edges += std::min(rows, most);
  }
  return static_cast<int>(std::clamp<std::int64_t>(std::min(edges, most) / kShare, 1, threads));
}

/// Throws InputError unless ptr cuts the seeds into `count` minibatches.
inline void check_cuts(std::span<const std::int64_t> seeds, std::span<const std::int64_t> ptr,
                       std::size_t count) {
  if (ptr.size() != count + 1 || ptr.front() != 0 ||
      ptr.back() != static_cast<std::int64_t>(seeds.size()) ||
      !std::is_sorted(ptr.begin(), ptr.end())) {
    throw InputError("ptr does not cut the seeds into minibatches");
  }
}

}  // namespace foregather
