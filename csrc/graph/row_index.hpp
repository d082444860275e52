// RowIndex: where the rows of a topology start and how long they are, in 2.25 bytes per vertex.
//
// An indptr takes 8 bytes per vertex. The index has 16-bit degrees, 32 to a cache line, and one
// 64-bit start for every 32 vertices: a row is found with two cache lines and a sum of at most 31
// numbers. The few degrees of 65535 and more (at most E / 65535 vertices) are in a separate sorted
// table.
//
// Built by appending the indptr in pieces, so the plain form is never in memory as a whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/buffer.hpp"

namespace foregather {

/// A row: its first edge and how many edges it has.
struct RowSpan {
  std::int64_t start;
  std::uint32_t degree;
};

class RowIndex {
 public:
  /// An index for `num_nodes` rows of `num_edges` edges, to be appended.
  RowIndex(std::int64_t num_nodes, std::int64_t num_edges);

  /// The next piece of an indptr: row ends, without the leading 0. Throws FormatError where they do
  /// not ascend, pass num_edges, or a row has 2^32 edges or more.
  void append(std::span<const std::int64_t> ends);
  /// Ends appending. Throws FormatError if rows are missing.
  void finish() const;

  RowSpan row(std::int64_t v) const {
    const auto group = static_cast<std::size_t>(v / kGroup);
    const auto place = static_cast<std::size_t>(v % kGroup);
    const std::uint16_t* degrees = &degree_[group * kGroup];
    std::uint32_t before = 0, large = 0;
    for (std::size_t i = 0; i < kGroup; ++i) {  // without branches, so that it vectorises
      const std::uint32_t degree = i < place ? degrees[i] : 0;
      before += degree;
      large |= degree == kLarge;
    }
    const std::int64_t start = start_[group] + before;
    if (large == 0 && degrees[place] != kLarge) return {start, degrees[place]};
    return large_row(v, start);
  }

  void prefetch(std::int64_t v) const {
    __builtin_prefetch(&degree_[static_cast<std::size_t>(v)]);
    __builtin_prefetch(&start_[static_cast<std::size_t>(v / kGroup)]);
  }

  std::int64_t num_nodes() const { return num_nodes_; }
  std::int64_t num_edges() const { return num_edges_; }
  /// The most bytes an index can take, known before it is made.
  static std::size_t bytes(std::int64_t num_nodes, std::int64_t num_edges);

 private:
  static constexpr std::int64_t kGroup = 32;
  static constexpr std::uint32_t kLarge = 0xFFFF;
  struct Large {
    std::int64_t node;
    std::uint32_t degree;
  };
  RowSpan large_row(std::int64_t v, std::int64_t start) const;

  std::int64_t num_nodes_, num_edges_;
  std::int64_t filled_ = 0;  ///< rows appended
  std::int64_t last_ = 0;    ///< end of the last of them
  Buffer<std::uint16_t> degree_;
  Buffer<std::int64_t> start_;
  std::vector<Large> large_;  ///< ascending by node
};

}  // namespace foregather
