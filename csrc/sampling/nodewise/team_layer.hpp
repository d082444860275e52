// Team layer: one layer of one minibatch on several threads, with the bits of Expansion::layer.
//
// Local ids are given in the order of the edges, so that is the work of one thread at a time. But
// most of the time goes into drawing positions and reading ids at random places, which rows do
// independently. So the frontier is cut into shares: threads draw and read shares that nobody has
// begun, and the first one renumbers those that are ready, in order, drawing too when none is.
// Nothing is done twice, and progress never depends on a thread that has not come.
//
// How many edges each row gives is known before, so every share writes to its place at once. A
// layer too small for a team stays with its thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "parallel/pool.hpp"
#include "sampling/nodewise/expand.hpp"

namespace foregather {

/// Rows of a share, and edges that are worth a team.
inline constexpr std::int64_t kShareRows = 256, kTeamEdges = 4096;

/// What the threads of a team share. A share is the rows between two cuts.
struct TeamShares {
  explicit TeamShares(std::int64_t count)
      : at(static_cast<std::size_t>(count) + 1),
        drawn(new std::atomic<bool>[static_cast<std::size_t>(count)]()) {}

  /// A share that nobody has begun, or none (the count).
  std::int64_t take() {
    // relaxed: shares are independent; `drawn` orders what they wrote
    return std::min(next.fetch_add(1, std::memory_order_relaxed), count());
  }
  bool is_drawn(std::int64_t share) const {
    return drawn[static_cast<std::size_t>(share)].load(std::memory_order_acquire);
  }
  std::int64_t count() const { return static_cast<std::int64_t>(at.size()) - 1; }

  std::vector<std::int64_t> at;                ///< where the edges of each begin
  std::unique_ptr<std::atomic<bool>[]> drawn;  ///< release: its edges are there
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};  ///< a thread left with an exception, perhaps with a share
};

// Positions and ids of the rows [from, to), whose edges begin with `at`.
template <typename Id>
template <typename Draw>
void Expansion<Id>::draw_share(const Topology<Id>& graph, std::int64_t from, std::int64_t to,
                               std::int64_t at, Draw& draw, SampleArrays<Id>& out) {
  auto ask = [&](std::int64_t i) __attribute__((always_inline)) {
    if constexpr (Draw::kAsks) {
      if (i < to) draw.ask(row(i, out));
    }
  };
  std::int64_t read = at;
  Trail drawn_rows(at);
  for (std::int64_t i = from; i < from + kAsk; ++i) ask(i);
  for (std::int64_t i = from; i < to; ++i) {
    ask(i + kAsk);
    at = draw_row(graph, i, at, draw, out);
    const std::int64_t to_read = drawn_rows.push(at);
    read_block<false>(graph, {read, to_read}, out);
    read = to_read;
  }
  read_block<false>(graph, {read, at}, out);
}

// Local ids of shares whose ids another thread may have read. Places in the table are asked for a
// few at a time, as in layer(): a burst of them waits for memory, which then waits for the numbers.
template <typename Id>
void Expansion<Id>::renumber_shares(Block shares, SampleArrays<Id>& out) {
  constexpr std::int64_t kFew = 8, kFar = 32;  // edges
  auto ask = [&](std::int64_t from, std::int64_t to) __attribute__((always_inline)) {
    for (std::int64_t e = from; e < std::min(to, shares.last); ++e) {
      if constexpr (sizeof(Id) > 4) {
        local_.prefetch(wide_[static_cast<std::size_t>(e - drawn_)]);
      } else {
        local_.prefetch(out.row[static_cast<std::size_t>(e)]);
      }
    }
  };
  ask(shares.first, shares.first + kFar);
  for (std::int64_t e = shares.first; e < shares.last; e += kFew) {
    ask(e + kFar, e + kFar + kFew);
    renumber_block({e, std::min(e + kFew, shares.last)}, out);
  }
}

template <typename Id>
template <typename Draw>
void Expansion<Id>::layer_by_team(const Topology<Id>& graph, std::int64_t first,
                                  std::span<Draw> draws, SampleArrays<Id>& out) {
  const std::int64_t last = known(), rows = last - first;
  const int team = static_cast<int>(draws.size());
  TeamShares shares((rows + kShareRows - 1) / kShareRows);
  const auto from = [&](std::int64_t share) { return first + share * kShareRows; };
  const auto to = [&](std::int64_t share) { return std::min(from(share) + kShareRows, last); };
  begin_rows(first, last);
  parallel_for(shares.count(), team, 4, [&](std::int64_t begin, std::int64_t end, int part) {
    for (std::int64_t i = begin; i < end; ++i) {
      shares.at[static_cast<std::size_t>(i) + 1] =
          find_rows(graph, from(i), to(i), draws[static_cast<std::size_t>(part)], out);
    }
  });
  shares.at[0] = drawn_;
  for (std::size_t i = 1; i < shares.at.size(); ++i) shares.at[i] += shares.at[i - 1];
  const std::int64_t end = shares.at.back(), edges = end - drawn_;
  if (edges < kTeamEdges) return layer(graph, first, draws[0], out);
  local_.require_room(last + edges);
  out.make_room(last + edges, last, end, drawn_);
  if constexpr (sizeof(Id) > 4) wide_.reserve(static_cast<std::size_t>(edges));

  const auto place = [&](std::int64_t share) {
    const auto i = static_cast<std::size_t>(share);
    return Block{shares.at[i], shares.at[i + 1]};
  };
  const auto draw_next = [&](int thread) {
    const std::int64_t share = shares.take();
    if (share == shares.count()) return false;
    draw_share(graph, from(share), to(share), place(share).first,
               draws[static_cast<std::size_t>(thread)], out);
    shares.drawn[static_cast<std::size_t>(share)].store(true, std::memory_order_release);
    return true;
  };
  const auto renumber_all = [&](int thread) {
    for (std::int64_t share = 0, ready = 0; share < shares.count(); share = ready) {
      while (ready < shares.count() && shares.is_drawn(ready)) ++ready;
      if (ready > share) {
        renumber_shares({place(share).first, place(ready - 1).last}, out);
      } else {
        if (shares.failed.load(std::memory_order_relaxed)) return;
        if (!draw_next(thread)) std::this_thread::yield();  // another thread is about to end it
      }
    }
  };
  parallel_tasks(team, team, [&](std::int64_t task, int thread) {
    try {
      if (task == 0) return renumber_all(thread);
      while (draw_next(thread)) continue;
    } catch (...) {
      shares.failed.store(true, std::memory_order_relaxed);
      throw;
    }
  });
  out.num_nodes.push_back(known());
  out.num_edges.push_back(edges);
  drawn_ = end;
}

}  // namespace foregather
