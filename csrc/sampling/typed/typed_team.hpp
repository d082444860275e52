// Typed team: one layer of one typed minibatch on several threads, with the bits of
// TypedWorker::expand. Private to TypedWorker.
//
// What a layer expands is known when it begins, for all relations. So the rows of all relations are
// cut into shares, which threads draw and read in any order. Local ids of a type are given in the
// order of relations and rows; types do not wait for each other. So each type has a chain of
// shares that one thread at a time renumbers, in order, as they become ready. A thread looks after
// its own chains first, then draws, then looks after those of others; so tables seldom move between
// cores, and progress never depends on a thread that has not come.
//
// How many edges each row gives is known before (Draw::kExact), so every share writes to its place
// at once. A layer too small for a team stays with its thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <thread>
#include <type_traits>
#include <vector>

#include "parallel/pool.hpp"
#include "sampling/nodewise/team_layer.hpp"
#include "sampling/typed/typed_step.hpp"

namespace foregather {

/// Some rows of a step.
template <typename Id>
struct TypedWorker<Id>::Share {
  std::size_t step = 0;
  Span rows;
  std::int64_t at = 0, end = 0;    ///< its edges
  std::atomic<bool> drawn{false};  ///< release: its edges are there
};

/// What the threads of a team share.
template <typename Id>
struct TypedWorker<Id>::Shares {
  struct Chain {
    std::vector<Share*> shares;  ///< of one source type, in order
    std::size_t next = 0;        ///< the first that is not renumbered; of the thread that is in
    std::atomic<bool> taken{false};
  };

  /// A share that nobody has begun, or none.
  Share* take() {
    // relaxed: shares are independent; `drawn` orders what they wrote
    const std::size_t at = next.fetch_add(1, std::memory_order_relaxed);
    return at < all.size() ? &all[at] : nullptr;
  }

  std::deque<Share> all;     ///< addresses stay
  std::deque<Chain> chains;  ///< one a type
  std::vector<std::size_t> steps;
  std::atomic<std::size_t> next{0}, renumbered{0};
  std::atomic<bool> failed{false};  ///< a thread left with an exception, perhaps with a share
};

// Cuts the layer into shares and finds out how many edges each gives; returns how many all do.
template <typename Id>
std::int64_t TypedWorker<Id>::deal(const TypedGraph<Id>& graph, const TypedRule& rule,
                                   std::size_t layer, std::span<const Span> frontier,
                                   std::span<TypedWorker> team, Shares& shares,
                                   TypedArrays<Id>& out) {
  constexpr std::int64_t kRows = kShareRows / 2;
  steps_.resize(std::max(steps_.size(), graph.relations.size()));
  shares.chains.resize(graph.num_nodes.size());
  for (std::size_t r = 0; r < graph.relations.size(); ++r) {
    const Span rows = frontier[graph.relations[r].target];
    if (!set(steps_[r], graph, rule, r, layer, rows, out)) continue;
    shares.steps.push_back(r);
    for (std::int64_t from = rows.first; from < rows.last; from += kRows) {
      Share& share = shares.all.emplace_back();
      share.step = r;
      share.rows = {from, std::min(from + kRows, rows.last)};
      shares.chains[graph.relations[r].source].shares.push_back(&share);
    }
  }
  const auto count = static_cast<std::int64_t>(shares.all.size());
  parallel_for(count, static_cast<int>(team.size()), 8,
               [&](std::int64_t first, std::int64_t last, int part) {
                 for (std::int64_t i = first; i < last; ++i) {
                   Share& share = shares.all[static_cast<std::size_t>(i)];
                   TypedStep<Id>& step = steps_[share.step];
                   const auto find = [&](auto& draw) {
                     share.end =
                         find_rows(step, share.rows, draw, out.types[step.relation->target]);
                   };
                   team[static_cast<std::size_t>(part)].with_draw(graph, rule, step, 0, find);
                 }
               });
  std::int64_t total = 0;
  std::vector<std::int64_t> at(graph.relations.size());
  for (const std::size_t r : shares.steps) at[r] = steps_[r].before;
  for (Share& share : shares.all) {
    total += share.end;
    share.at = at[share.step];
    share.end = at[share.step] += share.end;
  }
  return total;
}

// Positions and ids of a share.
template <typename Id>
template <bool kTrees, typename Draw>
void TypedWorker<Id>::draw_share(TypedStep<Id>& step, const Share& share, Draw& draw,
                                 TypedArrays<Id>& out) const {
  RelationArrays& edges = out.relations[step.number];
  const TypeArrays<Id>& target = out.types[step.relation->target];
  Draw asker = draw;
  const auto ask = [&](std::int64_t i) __attribute__((always_inline)) {
    if constexpr (Draw::kAsks) {
      if (i >= share.rows.last) return;
      if constexpr (kTrees) asker.use(key_of(step, i, target));
      asker.ask(step.row(i, target));
    }
  };
  std::int64_t at = share.at, read = at;
  RowTrail drawn_rows(at, share.end - at, share.rows.last - share.rows.first);
  for (std::int64_t i = share.rows.first; i < share.rows.first + kAsk; ++i) ask(i);
  for (std::int64_t i = share.rows.first; i < share.rows.last; ++i) {
    ask(i + kAsk);
    touch_block(step, i, share.rows);
    at = draw_row<kTrees>(step, i, at, draw, edges, target);
    const std::int64_t to_read = drawn_rows.push(at);
    read_ids<kTrees, false>(step, {read, to_read}, edges, target);
    read = to_read;
  }
  read_ids<kTrees, false>(step, {read, at}, edges, target);
}

// Local ids of a share whose ids another thread may have read.
template <typename Id>
template <bool kTrees>
void TypedWorker<Id>::renumber_share(TypedStep<Id>& step, const Share& share,
                                     TypedArrays<Id>& out) {
  constexpr std::int64_t kPiece = 64;
  const std::size_t type = step.relation->source;
  RelationArrays& edges = out.relations[step.number];
  const std::uint32_t* col = edges.col.data();
  const std::uint32_t* tree = kTrees ? out.types[step.relation->target].tree.data() : nullptr;
  const auto ask = [&](std::int64_t first) {
    for (std::int64_t e = first; e < std::min(first + kPiece, share.end); ++e) {
      std::int64_t v;
      if constexpr (sizeof(Id) > 4) {
        v = step.wide[static_cast<std::size_t>(e - step.before)];
      } else {
        v = edges.row[static_cast<std::size_t>(e)];
      }
      if constexpr (kTrees) {
        paired_[type].prefetch(tree[col[e]], v);
      } else {
        plain_[type].prefetch(v);
      }
    }
  };
  if constexpr (kTrees) paired_[type].make_room(paired_[type].known() + (share.end - share.at));
  ask(share.at);
  for (std::int64_t e = share.at; e < share.end; e += kPiece) {
    ask(e + kPiece);
    const std::int64_t end = std::min(e + kPiece, share.end);
    for (std::int64_t from = e, to = end; kTrees && from < end; from = to) {
      for (to = from + 1; to < end && col[to] == col[from];) ++to;
      renumber<kTrees>(step, {from, to}, edges, out);
    }
    if constexpr (!kTrees) renumber<kTrees>(step, {e, end}, edges, out);
  }
}

// What one thread of the team does; `mate` has its scratch.
template <typename Id>
template <bool kTrees>
void TypedWorker<Id>::work(const TypedGraph<Id>& graph, const TypedRule& rule, std::size_t own,
                           TypedWorker& mate, Shares& shares, TypedArrays<Id>& out) {
  using Chain = typename Shares::Chain;
  const auto renumber_ready = [&](Chain& chain) {
    // acquire and release: the table of the type goes from thread to thread
    if (chain.taken.exchange(true, std::memory_order_acquire)) return false;
    std::size_t done = 0;
    while (chain.next < chain.shares.size()) {
      const Share& share = *chain.shares[chain.next];
      if (!share.drawn.load(std::memory_order_acquire)) break;
      renumber_share<kTrees>(steps_[share.step], share, out);
      ++chain.next;
      ++done;
    }
    chain.taken.store(false, std::memory_order_release);
    // release: who sees that all are done sees what they wrote
    shares.renumbered.fetch_add(done, std::memory_order_release);
    return done > 0;
  };
  const auto draw_next = [&] {
    Share* share = shares.take();
    if (share == nullptr) return false;
    TypedStep<Id>& step = steps_[share->step];
    mate.with_draw(graph, rule, step, relation_key(layers_[0], step.number), [&](auto& draw) {
      if constexpr (std::decay_t<decltype(draw)>::kExact) {  // others are not for teams
        draw_share<kTrees>(step, *share, draw, out);
      }
    });
    share->drawn.store(true, std::memory_order_release);
    return true;
  };
  const std::size_t chains = shares.chains.size();
  while (shares.renumbered.load(std::memory_order_acquire) < shares.all.size()) {
    if (shares.failed.load(std::memory_order_relaxed)) return;
    bool did = false;
    for (std::size_t c = own; c < chains; c += team_) did |= renumber_ready(shares.chains[c]);
    if (did || draw_next()) continue;
    for (std::size_t c = 0; c < chains; ++c) did |= renumber_ready(shares.chains[c]);
    if (!did) std::this_thread::yield();  // another thread is about to end a share
  }
}

template <typename Id>
template <bool kTrees>
void TypedWorker<Id>::expand_by_team(const TypedGraph<Id>& graph, const TypedRule& rule,
                                     std::size_t layer, std::span<const Span> frontier,
                                     std::span<TypedWorker> team, TypedArrays<Id>& out) {
  Shares shares;
  const std::int64_t total = deal(graph, rule, layer, frontier, team, shares, out);
  if (total < kTeamEdges) return expand<kTrees>(graph, rule, layer, frontier, out);
  std::vector<std::int64_t> met(graph.num_nodes.size());
  for (std::size_t type = 0; type < met.size(); ++type) met[type] = known(rule, type);
  for (const Share& share : shares.all) {  // those of a relation follow each other
    met[steps_[share.step].relation->source] += share.end - share.at;
    out.relations[share.step].count = share.end;
  }
  for (const std::size_t r : shares.steps) {
    const std::int64_t all = met[graph.relations[r].source];
    make_room<kTrees>(steps_[r], all, out.relations[r].count, steps_[r].before, out);
  }
  team_ = team.size();
  const int threads = static_cast<int>(team.size());
  parallel_tasks(threads, threads, [&](std::int64_t task, int thread) {
    try {
      work<kTrees>(graph, rule, static_cast<std::size_t>(task),
                   team[static_cast<std::size_t>(thread)], shares, out);
    } catch (...) {
      shares.failed.store(true, std::memory_order_relaxed);
      throw;
    }
  });
}

}  // namespace foregather
