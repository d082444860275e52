// Communities: groups of nodes that lie close together, found by label propagation over a stream.
//
// The topology is never held: a caller feeds the rows of the CSC in order, as many times as it
// likes, and every pass moves nodes to the label that most of their sources have. What is held is
// 12 bytes and a bit a node: its label, the size of every label, the label of the level above, and
// whether it has sources.
//
// Levels make a hierarchy. `begin_level(cap)` freezes the labels as the level above, gives every
// node a label of its own, and from then on labels spread only between nodes with the same frozen
// label and to at most `cap` nodes. Levels of falling caps so give groups inside groups: the coarse
// ones are what a cache holds, the fine ones what a block holds.
//
// A pass works in blocks of rows whose size depends on the number of nodes alone. All nodes of a
// block look at the same labels, in parallel; then they move one after the other, as long as the
// label has room. So labels depend neither on the number of threads nor on the pieces that are
// fed. Of a row with more than `kMostSources` sources a fixed subset votes, so a pass is linear.
//
// A node without sources has nobody to ask: it takes the label of the first of its targets that
// has room, in the order of the stream, once a pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace foregather {

class Communities {
 public:
  static constexpr std::int64_t kMostSources = 512;

  /// Throws InputError for more than 2^32 - 1 nodes.
  explicit Communities(std::int64_t num_nodes);

  /// Begins a level whose labels have at most `cap` nodes each; cap >= 1.
  void begin_level(std::int64_t cap);

  /// Feeds the rows `first_row`, `first_row + 1`, ...: `indptr` has their borders, counted from the
  /// start of `indices` by indptr[0]. Rows come in ascending order, each once a pass; a pass begins
  /// with row 0. Returns how many nodes moved. Throws InputError for an id that is no node, or for
  /// rows out of order.
  template <typename Id>
  std::int64_t feed(std::int64_t first_row, std::span<const std::int64_t> indptr,
                    std::span<const Id> indices, int threads);

  std::span<const std::uint32_t> labels() const { return label_; }
  std::span<const std::uint32_t> above() const { return above_; }
  /// Rows that vote together; callers feed multiples of it, except for the last rows.
  std::int64_t block() const { return block_; }

 private:
  template <typename Id>
  std::int64_t feed_block(std::int64_t first_row, std::span<const std::int64_t> indptr,
                          std::span<const Id> indices, int threads);
  bool move(std::uint32_t node, std::uint32_t to);

  std::int64_t block_;
  std::int64_t cap_ = 1;
  std::int64_t next_row_ = 0;
  std::uint64_t salt_ = 0;  // changes with every pass, for ties
  std::vector<std::uint32_t> label_, above_, size_;
  std::vector<bool> sourceless_;
  std::vector<std::uint32_t> wish_;  // of the block at hand
};

/// Adds to score[source] what a target of `degree` sources gives each of them when `fanout` are
/// drawn: min(fanout, degree) / degree, in 2^-20. Sums are exact, so the order does not matter.
template <typename Id>
void add_visits(std::span<const std::int64_t> indptr, std::span<const Id> indices,
                std::int64_t fanout, std::span<std::uint64_t> score);

}  // namespace foregather
