// What a disk sampler does to one minibatch: begin, draw a layer, renumber it. Private to it.
//
// These are the steps of NeighborWorker (sample.cpp) without the reading between them, so that all
// minibatches can be read for at once. The order of picks and of new vertices is the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/row_index.hpp"
#include "sampling/keys.hpp"
#include "sampling/nodewise/expand.hpp"
#include "sampling/nodewise/sample.hpp"
#include "sampling/numbering/local_ids.hpp"
#include "sampling/on_disk/row_gaps.hpp"
#include "sampling/picking/pick.hpp"

namespace foregather {

/// A minibatch between its layers.
template <typename Id>
struct Growing {
  SampleArrays<Id>* out = nullptr;
  std::uint64_t key = 0;   ///< of the minibatch
  std::int64_t first = 0;  ///< where the frontier begins
  std::int64_t known = 0;  ///< vertices met
  std::int64_t drawn = 0;  ///< edges of the layers before
  std::int64_t edges = 0;  ///< edges of this layer
  RowGaps gaps;            ///< what is left out

  /// Where the id of edge e of this layer waits for its number. 32-bit ids wait in `row`. 64-bit
  /// ones wait in `node`, one place behind where they could have to go.
  Id& pending(std::int64_t e) const {
    if constexpr (sizeof(Id) > 4) {
      return out->node[static_cast<std::size_t>(known + 1 + (e - drawn))];
    } else {
      return out->row[static_cast<std::size_t>(e)];
    }
  }
};

/// Scratch of one thread.
struct DrawScratch {
  Buffer<std::uint32_t> picks;
  PickScratch bitmap;
};

template <typename Id>
void begin_minibatch(Growing<Id>& batch, std::span<const std::int64_t> seeds,
                     std::int64_t num_nodes, LocalIds<Id>& ids) {
  SampleArrays<Id>& out = *batch.out;
  out.node.reserve(seeds.size() + 1);
  out.num_nodes.clear();
  out.num_edges.clear();
  out.seed_position.clear();
  ids.begin(static_cast<std::int64_t>(seeds.size()));
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    if (seeds[i] < 0 || seeds[i] >= num_nodes) {
      throw InputError("seed " + std::to_string(i) + " is node " + std::to_string(seeds[i]) +
                       ", but the graph has " + std::to_string(num_nodes) +
                       " nodes (ids are 0 to N-1)");
    }
    const auto next = static_cast<std::uint32_t>(batch.known);
    const std::uint32_t local = ids.insert(static_cast<Id>(seeds[i]), next);
    if (local != next && out.seed_position.empty()) {  // the first repeat: all before in order
      out.seed_position.resize(seeds.size());
      for (std::size_t b = 0; b < i; ++b) out.seed_position[b] = static_cast<std::int64_t>(b);
    }
    if (local == next)
      out.node[static_cast<std::size_t>(batch.known++)] = static_cast<Id>(seeds[i]);
    if (!out.seed_position.empty()) out.seed_position[i] = local;
  }
  out.num_nodes.push_back(batch.known);
  batch.gaps.place(batch.first, batch.known, ids);
}

inline constexpr std::int64_t kRowsAhead = 24;  // rows ahead whose index is asked for
inline constexpr std::int64_t kIdsAhead = 16;   // edges ahead whose place in the table is

template <typename Id>
void count_edges_of(Growing<Id>& batch, const RowIndex& index, bool replace, std::int64_t fanout) {
  const Id* node = batch.out->node.data();
  batch.edges = 0;
  auto gaps = batch.gaps.begin();
  for (std::int64_t i = batch.first; i < batch.known; ++i) {
    if (i + kRowsAhead < batch.known)
      index.prefetch(static_cast<std::int64_t>(node[i + kRowsAhead]));
    const std::int64_t degree = index.row(static_cast<std::int64_t>(node[i])).degree -
                                static_cast<std::int64_t>(gaps.of(i).size());
    const bool whole = fanout < 0 || (!replace && degree <= fanout);
    batch.edges += whole ? degree : degree == 0 ? 0 : fanout;
  }
  if (batch.known + batch.edges + 1 >= std::int64_t{1} << 31) {
    throw InputError("a minibatch of more than 2^31 vertices and edges; lower the fan-outs");
  }
}

/// Positions and targets of all picks of the next layer.
template <typename Id>
void draw_layer(Growing<Id>& batch, const RowIndex& index, bool replace, std::int64_t fanout,
                std::uint64_t key, DrawScratch& scratch) {
  count_edges_of(batch, index, replace, fanout);
  SampleArrays<Id>& out = *batch.out;
  const auto total = static_cast<std::size_t>(batch.drawn + batch.edges);
  const auto drawn = static_cast<std::size_t>(batch.drawn);
  const auto known = static_cast<std::size_t>(batch.known);
  out.node.reserve(known + static_cast<std::size_t>(batch.edges) + 1, known);
  out.row.reserve(total, drawn);
  out.col.reserve(total, drawn);
  out.edge.reserve(total, drawn);
  if (fanout > 0) scratch.picks.reserve(static_cast<std::size_t>(fanout));
  const Id* node = out.node.data();
  std::uint32_t* col = out.col.data() + batch.drawn;
  std::int64_t* edge = out.edge.data() + batch.drawn;
  auto gaps = batch.gaps.begin();
  for (std::int64_t i = batch.first; i < batch.known; ++i) {
    if (i + kRowsAhead < batch.known)
      index.prefetch(static_cast<std::int64_t>(node[i + kRowsAhead]));
    const RowSpan row = index.row(static_cast<std::int64_t>(node[i]));
    const auto left_out = gaps.of(i);
    const std::int64_t start = row.start;
    const std::uint32_t degree = row.degree - static_cast<std::uint32_t>(left_out.size());
    const auto target = static_cast<std::uint32_t>(i);
    if (fanout < 0 || (!replace && degree <= fanout)) {
      std::int64_t* first = edge;
      for (std::uint32_t p = 0; p < degree; ++p, ++edge, ++col) *edge = start + p, *col = target;
      if (!left_out.empty()) step_over(left_out, first, degree);
      continue;
    }
    if (degree == 0) continue;
    const std::uint64_t row_key = vertex_key(key, static_cast<std::uint64_t>(node[i]));
    const auto count = static_cast<std::uint32_t>(fanout);
    std::uint32_t* picks = scratch.picks.data();
    if (replace) {
      pick_any(row_key, degree, count, picks);
    } else {
      pick_distinct(row_key, degree, count, picks, scratch.bitmap);
    }
    std::int64_t* first = edge;
    for (std::uint32_t p = 0; p < count; ++p, ++edge, ++col)
      *edge = start + picks[p], *col = target;
    if (!left_out.empty()) step_over(left_out, first, count);
  }
}

/// Turns the pending ids of a layer into local ids, and ends the layer.
template <typename Id>
void renumber_layer(Growing<Id>& batch, bool once, LocalIds<Id>& ids) {
  SampleArrays<Id>& out = *batch.out;
  ids.begin(batch.known + batch.edges + 1);
  for (std::int64_t i = 0; i < batch.known; ++i) {
    if (i + kIdsAhead < batch.known)
      ids.prefetch(out.node[static_cast<std::size_t>(i + kIdsAhead)]);
    ids.insert(out.node[static_cast<std::size_t>(i)], static_cast<std::uint32_t>(i));
  }
  const std::int64_t end = batch.drawn + batch.edges;
  Id* node = out.node.data();
  std::uint32_t* row = out.row.data();
  auto known = static_cast<std::uint32_t>(batch.known);
  for (std::int64_t e = batch.drawn; e < end; ++e) {
    if (e + kIdsAhead < end) ids.prefetch(batch.pending(e + kIdsAhead));
    const Id v = batch.pending(e);
    const std::uint32_t local = ids.insert(v, known);
    node[known] = v;  // stays only if new
    row[e] = local;
    known += local == known;
  }
  if (once) batch.first = batch.known;
  batch.known = known;
  batch.drawn = end;
  out.num_nodes.push_back(known);
  out.num_edges.push_back(batch.edges);
  batch.gaps.place(batch.first, batch.known, ids);
}

}  // namespace foregather
