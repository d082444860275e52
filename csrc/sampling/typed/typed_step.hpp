// Typed step: one relation of one layer, from rows of one type to local ids of another; the
// pipeline of expand.hpp, row by row. Private to TypedWorker.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "sampling/keys.hpp"
#include "sampling/typed/prefix.hpp"
#include "sampling/typed/typed_sample.hpp"

namespace foregather {

/// Where the last rows ended that a stage of the pipeline was through with; as Trail, but with
/// fewer rows between stages if rows have many edges, so that what was prefetched is still near.
class RowTrail {
 public:
  /// For rows that give this number of edges together.
  RowTrail(std::int64_t at, std::int64_t edges, std::int64_t rows) {
    constexpr std::int64_t kEdges = 64;  // between two stages; 160 took 1.07 times as long
    const std::int64_t each = std::max<std::int64_t>(1, edges / std::max<std::int64_t>(1, rows));
    lag_ = static_cast<std::size_t>(
        std::clamp<std::int64_t>(kEdges / each, 3, std::int64_t{Trail::kLag}));
    ends_.fill(at);
  }
  /// Adds the end of a row; returns that of the row lag() before.
  std::int64_t push(std::int64_t end) {
    const std::size_t at = turn_;
    turn_ = turn_ + 1 == lag_ ? 0 : turn_ + 1;
    return std::exchange(ends_[at], end);
  }
  std::size_t lag() const { return lag_; }

 private:
  std::array<std::int64_t, Trail::kLag> ends_;
  std::size_t lag_, turn_ = 0;
};

// Cuts rows [from, to) of a timed relation to what their trees may see.
template <typename Id>
void TypedWorker<Id>::cut_to_times(TypedStep<Id>& step, Span rows, const TypeArrays<Id>& target) {
  std::array<PrefixRow, kPrefixRows> block;
  const auto end = static_cast<std::size_t>(rows.last - step.first);
  for (auto at = static_cast<std::size_t>(rows.first - step.first); at < end; at += kPrefixRows) {
    const std::size_t some = std::min(kPrefixRows, end - at);
    for (std::size_t k = 0; k < some; ++k) {
      const auto tree = target.tree[static_cast<std::size_t>(step.first) + at + k];
      block[k] = {step.start[at + k], times_[tree], step.degree[at + k]};
    }
    cut_rows(step.relation->time.data(), {block.data(), some});
    for (std::size_t k = 0; k < some; ++k) step.degree[at + k] = block[k].length;
  }
}

// Edges of a row before its last step.cut, those that are left out not counted among these.
template <typename Id>
std::uint32_t first_of_last(const TypedStep<Id>& step, const FrontierRow<Id>& row) {
  std::int64_t first = row.begin + row.degree - step.cut;
  if (step.excluded != nullptr) {
    const auto gaps = step.excluded->of(row);
    for (std::size_t g = gaps.size(); g > 0 && gaps[g - 1] >= first && first > row.begin; --g) {
      --first;
    }
  }
  return static_cast<std::uint32_t>(first - row.begin);
}

// Reads where rows of a step are, cut to what may be seen and to the last edges; returns about how
// many edges they give (exactly, if the Draw knows).
template <typename Id>
template <typename Draw>
std::int64_t TypedWorker<Id>::find_rows(TypedStep<Id>& step, Span rows, const Draw& draw,
                                        const TypeArrays<Id>& target) {
  const std::int64_t* indptr = step.relation->graph.indptr.data();
  const Id* node = target.node.data();
  for (std::int64_t i = rows.first; i < rows.last; ++i) {
    if (i + kAhead < rows.last) __builtin_prefetch(&indptr[node[i + kAhead]]);
    const std::int64_t begin = indptr[node[i]];
    step.start[static_cast<std::size_t>(i - step.first)] = begin;
    step.degree[static_cast<std::size_t>(i - step.first)] =
        static_cast<std::uint32_t>(indptr[node[i] + 1] - begin);
  }
  if (step.timed) cut_to_times(step, rows, target);
  std::int64_t total = 0;
  for (std::int64_t i = rows.first; i < rows.last; ++i) {
    const auto at = static_cast<std::size_t>(i - step.first);
    if (step.cut >= 0 && step.degree[at] > step.cut) {
      const std::uint32_t passed = first_of_last(step, step.row(i, target));
      step.start[at] += passed;
      step.degree[at] -= passed;
    }
    total += draw.likely(step.row(i, target));
  }
  return total;
}

// Before row i: asks for the first id of each row of the next block, where i begins one. A row of a
// large relation is in a page that the processor does not remember, and looking that up holds the
// row's other reads up; here the pages of a block are looked up at once. (Rows alone took 1.08
// times as long, with 156 MB of ids.)
template <typename Id>
void TypedWorker<Id>::touch_block(const TypedStep<Id>& step, std::int64_t i, Span rows) {
  if ((i - rows.first) % kTouch != 0) return;
  const Id* indices = step.relation->graph.indices.data();
  const std::int64_t end = std::min(i + 2 * kTouch, rows.last);
  for (std::int64_t k = i + kTouch; k < end; ++k) {
    __builtin_prefetch(&indices[step.start[static_cast<std::size_t>(k - step.first)]]);
  }
}

// Positions of row i, whose edges begin with `at`; returns where they end.
template <typename Id>
template <bool kTrees, typename Draw>
std::int64_t TypedWorker<Id>::draw_row(const TypedStep<Id>& step, std::int64_t i, std::int64_t at,
                                       Draw& draw, RelationArrays& edges,
                                       const TypeArrays<Id>& target) const {
  const Id* indices = step.relation->graph.indices.data();
  const FrontierRow<Id> own = step.row(i, target);
  std::int64_t* edge = edges.edge.data() + at;
  std::uint32_t* col = edges.col.data() + at;
  std::uint32_t count = own.degree;
  if (draw.whole(own)) {
    for (std::uint32_t p = 0; p < count; ++p) edge[p] = own.begin + p;
    prefetch_range(indices + own.begin, count);
  } else {
    if constexpr (kTrees) draw.use(key_of(step, i, target));
    count = draw(own, edge);
    for (std::uint32_t p = 0; p < count && !Draw::kReads; ++p)
      __builtin_prefetch(&indices[edge[p]]);
  }
  for (std::uint32_t p = 0; p < count; ++p) col[p] = static_cast<std::uint32_t>(i);
  if (edges.weighted) draw.weigh(own, edge, count, edges.weight.data() + at);
  return at + count;
}

// Ids of edges, which must have room in `wide`; kSoon: this thread renumbers them soon, and they
// are of one row.
template <typename Id>
template <bool kTrees, bool kSoon>
void TypedWorker<Id>::read_ids(TypedStep<Id>& step, Span block, RelationArrays& edges,
                               const TypeArrays<Id>& target) const {
  if (block.first == block.last) return;
  const Id* indices = step.relation->graph.indices.data();
  const std::size_t source = step.relation->source;
  std::uint32_t tree = 0;
  if constexpr (kTrees && kSoon)
    tree = target.tree[edges.col[static_cast<std::size_t>(block.first)]];
  for (std::int64_t e = block.first; e < block.last; ++e) {
    const auto at = static_cast<std::size_t>(e);
    const Id v = indices[edges.edge[at]];
    if constexpr (kSoon && kTrees) paired_[source].prefetch(tree, static_cast<std::int64_t>(v));
    if constexpr (kSoon && !kTrees) plain_[source].prefetch(static_cast<std::int64_t>(v));
    if constexpr (sizeof(Id) > 4) {
      step.wide[static_cast<std::size_t>(e - step.before)] = v;
    } else {
      edges.row[at] = v;
    }
  }
}

// Local ids for the sources of edges, with trees those of one row; there is room for all of them
// in the source type.
template <typename Id>
template <bool kTrees>
void TypedWorker<Id>::renumber(TypedStep<Id>& step, Span block, RelationArrays& edges,
                               TypedArrays<Id>& out) {
  if (block.first == block.last) return;
  TypeArrays<Id>& source = out.types[step.relation->source];
  const auto count = static_cast<std::size_t>(block.last - block.first);
  std::uint32_t* local = edges.row.data() + block.first;
  const Id* ids;
  if constexpr (sizeof(Id) > 4) {
    ids = step.wide.data() + (block.first - step.before);
  } else {
    ids = local;
  }
  if constexpr (kTrees) {
    const std::uint32_t target = edges.col[static_cast<std::size_t>(block.first)];
    const std::uint32_t tree = out.types[step.relation->target].tree[target];
    paired_[step.relation->source].number(tree, ids, count, source.node.data(), source.tree.data(),
                                          local);
  } else {
    plain_[step.relation->source].number(ids, count, source.node.data(), local);
  }
}

// Room for `nodes` of the source type and edges up to `drawn`; those up to `filled` are kept.
template <typename Id>
template <bool kTrees>
void TypedWorker<Id>::make_room(TypedStep<Id>& step, std::int64_t nodes, std::int64_t drawn,
                                std::int64_t filled, TypedArrays<Id>& out) {
  const std::size_t type = step.relation->source;
  TypeArrays<Id>& source = out.types[type];
  const auto all = static_cast<std::size_t>(nodes) + 1;
  if constexpr (kTrees) {
    const auto kept = static_cast<std::size_t>(paired_[type].known());
    source.node.reserve(all, kept);
    source.tree.reserve(all, kept);
  } else {
    plain_[type].require_room(nodes);
    source.node.reserve(all, static_cast<std::size_t>(plain_[type].known()));
  }
  out.relations[step.number].make_room(drawn, filled);
  if constexpr (sizeof(Id) > 4) {
    step.wide.reserve(static_cast<std::size_t>(drawn - step.before),
                      static_cast<std::size_t>(filled - step.before));
  }
}

// One relation of one layer by one thread.
template <typename Id>
template <bool kTrees, typename Draw>
void TypedWorker<Id>::run(TypedStep<Id>& step, Draw& draw, TypedArrays<Id>& out) {
  RelationArrays& edges = out.relations[step.number];
  const TypeArrays<Id>& target = out.types[step.relation->target];
  const std::size_t type = step.relation->source;
  const Span rows{step.first, step.last};
  const std::int64_t likely = find_rows(step, rows, draw, target);
  std::int64_t at = step.before, read = at, numbered = at;
  const auto met = [&] {
    if constexpr (kTrees) return paired_[type].known();
    return plain_[type].known();
  };
  make_room<kTrees>(step, met() + likely, at + likely, at, out);
  Draw asker = draw;  // its keys are those of later rows
  const auto ask = [&](std::int64_t i) __attribute__((always_inline)) {
    if constexpr (Draw::kAsks) {
      if (i >= rows.last) return;
      if constexpr (kTrees) asker.use(key_of(step, i, target));
      asker.ask(step.row(i, target));
    }
  };
  RowTrail drawn_rows(at, likely, rows.last - rows.first), read_rows = drawn_rows;
  for (std::int64_t i = rows.first; i < rows.first + kAsk; ++i) ask(i);
  const auto advance = [&] {
    const std::int64_t to_read = drawn_rows.push(at), to_number = read_rows.push(to_read);
    // Renumbering comes between the prefetches of drawing and those of reading.
    renumber<kTrees>(step, {numbered, to_number}, edges, out);
    read_ids<kTrees, true>(step, {read, to_read}, edges, target);
    read = to_read;
    numbered = to_number;
  };
  for (std::int64_t i = rows.first; i < rows.last; ++i) {
    if constexpr (kTrees || !Draw::kExact) {
      // Edges of the rows before that wait for renumbering may all be new vertices.
      const std::int64_t most = draw.most(step.row(i, target));
      const std::int64_t nodes = met() + (at - numbered) + most;
      if constexpr (kTrees) paired_[type].make_room(nodes);
      if constexpr (!Draw::kExact) make_room<kTrees>(step, nodes, at + most, at, out);
    }
    ask(i + kAsk);
    touch_block(step, i, rows);
    at = draw_row<kTrees>(step, i, at, draw, edges, target);
    advance();
  }
  for (std::size_t left = 0; left < 2 * drawn_rows.lag(); ++left) advance();
  edges.count = at;
}

}  // namespace foregather
