// Check: passes over pieces of a stored topology that find what is wrong, or count what is there.
//
// Each function looks at one chunk, so a caller can walk files of any size in bounded memory. The
// finders return the position, inside the chunk, of the first offence, or -1. They trust nothing
// but the sizes of their spans.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.hpp"

namespace foregather {

/// First position whose value is below its predecessor; the first value's predecessor is
/// `previous`.
std::int64_t check_indptr(std::span<const std::int64_t> indptr, std::int64_t previous);

/// First position whose id is outside [0, num_nodes). Id is std::uint32_t or std::int64_t.
template <typename Id>
std::int64_t check_ids(std::span<const Id> ids, std::int64_t num_nodes, int threads);

/// First position k >= 1 of a chunk of `indices` where an id is below the one before it in the same
/// row. `indices` starts at edge `start`; `indptr` holds the boundaries of the rows it touches,
/// already checked to ascend. A caller overlaps chunks by one edge to see across their borders.
template <typename Id>
std::int64_t check_rows(std::span<const std::int64_t> indptr, std::span<const Id> indices,
                        std::int64_t start);

/// Adds 1 to counts[id] for each id; throws InputError for an id outside `counts`.
template <typename Id>
void count_ids(std::span<const Id> ids, std::span<std::int64_t> counts);

/// What a chunk of edges adds to the description of a graph. All fields add up over chunks
/// (`skew` modulo 2^64).
struct EdgeCounts {
  std::int64_t self_loops = 0;
  std::int64_t duplicates = 0;  ///< edges that repeat the one before them in their row
  std::int64_t labelled = 0;    ///< edges whose two endpoints have labels >= 0
  std::int64_t same_label = 0;  ///< of those, edges whose labels are equal
  /// Sum over distinct edges of hash(source, target) - hash(target, source): 0 for a graph in
  /// which every edge has its reverse, and for another one with probability about 2^-64.
  std::uint64_t skew = 0;
};

/// Counts over the edges [skip, |indices|) of a chunk that starts at edge `start`. `indptr` holds
/// the boundaries of the rows first_row, first_row + 1, ... that the chunk touches. `labels` has an
/// entry for each node, or is empty. With skip = 1 the first edge only serves as predecessor.
/// Throws InputError where an id or the row numbers leave `labels`.
template <typename Id>
EdgeCounts count_edges(std::span<const std::int64_t> indptr, std::int64_t first_row,
                       std::span<const Id> indices, std::int64_t start, std::int64_t skip,
                       std::span<const std::int64_t> labels, int threads);

}  // namespace foregather
