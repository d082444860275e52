// Typed step: one relation of one layer, from rows of one type to local ids of another; the
// pipeline of expand.hpp. Private to TypedWorker.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "sampling/keys.hpp"
#include "sampling/typed/prefix.hpp"
#include "sampling/typed/typed_sample.hpp"

namespace foregather {

// Cuts the rows of a timed relation to what their trees may see.
template <typename Id>
void TypedWorker<Id>::cut_to_times(const TypedRelation<Id>& relation, Span rows,
                                   const TypeArrays<Id>& target) {
  const auto count = static_cast<std::size_t>(rows.last - rows.first);
  std::array<PrefixRow, kPrefixRows> block;
  for (std::size_t at = 0; at < count; at += kPrefixRows) {
    const std::size_t some = std::min(kPrefixRows, count - at);
    for (std::size_t k = 0; k < some; ++k) {
      const auto tree = target.tree[static_cast<std::size_t>(rows.first) + at + k];
      block[k] = {start_[at + k], times_[tree], degree_[at + k]};
    }
    cut_rows(relation.time.data(), {block.data(), some});
    for (std::size_t k = 0; k < some; ++k) degree_[at + k] = block[k].length;
  }
}

// Reads where the rows are, cut to what may be seen and, unless `last_edges` is negative, to as
// many last edges; returns about how many edges they give.
template <typename Id>
template <typename Draw>
std::int64_t TypedWorker<Id>::find_rows(const TypedRelation<Id>& relation, std::int64_t last_edges,
                                        Span rows, const Draw& draw, const TypeArrays<Id>& target) {
  const std::int64_t* indptr = relation.graph.indptr.data();
  const Id* node = target.node.data();
  start_.reserve(static_cast<std::size_t>(rows.last - rows.first));
  degree_.reserve(static_cast<std::size_t>(rows.last - rows.first));
  first_ = rows.first;
  for (std::int64_t i = rows.first; i < rows.last; ++i) {
    if (i + kAhead < rows.last) __builtin_prefetch(&indptr[node[i + kAhead]]);
    const std::int64_t begin = indptr[node[i]];
    start_[static_cast<std::size_t>(i - first_)] = begin;
    degree_[static_cast<std::size_t>(i - first_)] =
        static_cast<std::uint32_t>(indptr[node[i] + 1] - begin);
  }
  if (!relation.time.empty() && !times_.empty()) cut_to_times(relation, rows, target);
  std::int64_t total = 0;
  for (std::int64_t i = rows.first; i < rows.last; ++i) {
    const auto at = static_cast<std::size_t>(i - first_);
    if (last_edges >= 0 && degree_[at] > last_edges) {
      start_[at] += degree_[at] - last_edges;
      degree_[at] = static_cast<std::uint32_t>(last_edges);
    }
    total += draw.likely(row(i, target));
  }
  return total;
}

template <typename Id>
template <bool kTrees>
void TypedWorker<Id>::read_ids(const TypedRelation<Id>& relation, Span block, RelationArrays& edges,
                               const TypeArrays<Id>& target) {
  const Id* indices = relation.graph.indices.data();
  if constexpr (sizeof(Id) > 4) {
    wide_.reserve(static_cast<std::size_t>(block.last - before_),
                  static_cast<std::size_t>(block.first - before_));
  }
  for (std::int64_t e = block.first; e < block.last; ++e) {
    const auto at = static_cast<std::size_t>(e);
    const Id v = indices[edges.edge[at]];
    if constexpr (kTrees) {
      paired_[relation.source].prefetch(target.tree[edges.col[at]], static_cast<std::int64_t>(v));
    } else {
      plain_[relation.source].prefetch(static_cast<std::int64_t>(v));
    }
    if constexpr (sizeof(Id) > 4) {
      wide_[static_cast<std::size_t>(e - before_)] = v;
    } else {
      edges.row[at] = v;
    }
  }
}

// Local ids for the sources of a block; there is room for all of them in the source type.
template <typename Id>
template <bool kTrees>
void TypedWorker<Id>::renumber(const TypedRelation<Id>& relation, Span block, RelationArrays& edges,
                               TypedArrays<Id>& out) {
  TypeArrays<Id>& source = out.types[relation.source];
  const TypeArrays<Id>& target = out.types[relation.target];
  const auto count = static_cast<std::size_t>(block.last - block.first);
  std::uint32_t* local = edges.row.data() + block.first;
  const Id* ids;
  if constexpr (sizeof(Id) > 4) {
    ids = wide_.data() + (block.first - before_);
  } else {
    ids = local;
  }
  if constexpr (!kTrees) {
    plain_[relation.source].number(ids, count, source.node.data(), local);
    return;
  }
  TreeNumbers& numbers = paired_[relation.source];
  const std::uint32_t* col = edges.col.data() + block.first;
  for (std::size_t i = 0; i < count; ++i) {
    const Id v = ids[i];
    const std::uint32_t tree = target.tree[col[i]];
    const auto before = static_cast<std::uint32_t>(numbers.known());
    const std::uint32_t id = numbers.insert(tree, static_cast<std::int64_t>(v));
    local[i] = id;
    if (id < before) continue;
    source.node[id] = v;
    source.tree[id] = tree;
  }
}

// One relation of one layer: the pipeline of expand.hpp, from rows of one type to ids of another.
template <typename Id>
template <bool kTrees, typename Draw>
void TypedWorker<Id>::run(const TypedRelation<Id>& relation, std::size_t number, Span rows,
                          Draw& draw, RelationArrays& edges, TypedArrays<Id>& out) {
  const Id* indices = relation.graph.indices.data();
  const TypeArrays<Id>& target = out.types[relation.target];
  TypeArrays<Id>& source = out.types[relation.source];
  before_ = edges.count;
  const auto met = [&] {
    if constexpr (kTrees) return paired_[relation.source].known();
    return plain_[relation.source].known();
  };
  const auto set_key = [&](std::int64_t i) {
    if constexpr (kTrees) {
      const std::uint32_t tree = target.tree[static_cast<std::size_t>(i)];
      draw.fanout.key = relation_key(layers_[tree], number);
    }
  };
  const auto ask = [&](std::int64_t from) __attribute__((always_inline)) {
    if constexpr (Draw::kAsks) {
      for (std::int64_t i = from; i < std::min(from + kBlock, rows.last); ++i) {
        set_key(i);
        draw.ask(row(i, target));
      }
    }
  };
  const auto make_room = [&](std::int64_t nodes, std::int64_t kept, std::int64_t drawn,
                             std::int64_t filled) {
    const auto all = static_cast<std::size_t>(nodes) + 1, old = static_cast<std::size_t>(kept);
    source.node.reserve(all, old);
    if constexpr (kTrees) {
      source.tree.reserve(all, old);
      paired_[relation.source].make_room(nodes);
    } else {
      plain_[relation.source].require_room(nodes);
    }
    edges.make_room(drawn, filled);
  };
  std::int64_t at = before_;
  Span reading{at, at}, waiting{at, at};
  for (std::int64_t block = 0; block < kAsk; ++block) ask(rows.first + block * kBlock);
  for (std::int64_t i = rows.first; i < rows.last; i += kBlock) {
    const std::int64_t end = std::min(i + kBlock, rows.last);
    std::int64_t most = 0;
    for (std::int64_t j = i; j < end; ++j) most += draw.most(row(j, target));
    // Edges of the blocks before that wait for renumbering may all be new vertices.
    make_room(met() + (at - waiting.first) + most, met(), at + most, at);
    ask(i + kAsk * kBlock);
    const std::int64_t begin = at;
    for (std::int64_t j = i; j < end; ++j) {
      const FrontierRow<Id> own = row(j, target);
      std::int64_t* edge = edges.edge.data() + at;
      std::uint32_t count = own.degree;
      if (draw.whole(own)) {
        for (std::uint32_t p = 0; p < count; ++p) edge[p] = own.begin + p;
        prefetch_range(indices + own.begin, count);
      } else {
        set_key(j);
        count = draw(own, edge);
        for (std::uint32_t p = 0; p < count; ++p) __builtin_prefetch(&indices[edge[p]]);
      }
      std::fill_n(edges.col.data() + at, count, static_cast<std::uint32_t>(j));
      at += count;
    }
    read_ids<kTrees>(relation, reading, edges, target);
    renumber<kTrees>(relation, waiting, edges, out);
    waiting = reading;
    reading = {begin, at};
  }
  read_ids<kTrees>(relation, reading, edges, target);
  renumber<kTrees>(relation, waiting, edges, out);
  renumber<kTrees>(relation, reading, edges, out);
  edges.count = at;
}

}  // namespace foregather
