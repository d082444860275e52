// Csc: turns a list of edges into compressed sparse columns, in memory.
//
// build_csc reads E edges source[e] -> target[e] in any order and fills the topology of types.hpp:
//
//   indptr   N + 1 entries; the in-edges of v are [indptr[v], indptr[v + 1])
//   indices  their sources: ascending inside a row (sort_rows), else in input order
//   order    optional: order[k] is the input position of CSC edge k
//
// Equal (target, source) pairs keep their input order, so the result is one definite array, the
// same for any number of threads. Both endpoints of every edge are checked before anything is
// written; the first edge that breaks 0 <= id < N is named in the InputError.
//
// How: (1) each thread checks a static part of the input and counts its edges per bucket, a bucket
// being 2^row_shift consecutive targets, about as many as make an L2-sized piece of the output;
// (2) each thread copies its part into the buckets as items that pack target, source and position
// into as few bits as they need; (3) buckets are independent: sources are sorted by a radix sort
// inside the cache and rows laid out by counting. A bucket that skew made too large is laid out
// by all threads together first, and its rows then sorted in groups. Every step is stable or
// carries the position in its key. (Few edges that stay in input order skip the buckets.)
//
// Memory besides input and output, in bytes per edge: 4 while the bits fit 32, else 8, else (order
// wanted and the bits exceed 64) 12, and 16 from 2^32 edges on; the input itself has 8 (uint32) or
// 16 (int64). Each thread adds one small buffer of a few average buckets.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.hpp"

namespace foregather {

/// Builds the CSC form of the edges source[e] -> target[e].
///
/// Id is std::uint32_t or std::int64_t. `indptr` has R + 1 entries, R <= N: R == N for a graph,
/// fewer for a range of its rows (targets are then counted from the first row of the range).
/// `indices` has E entries, `order` E or none (then it is not computed). threads <= 0 means
/// default_threads(). Throws InputError for a source outside [0, N), a target outside [0, R), or
/// spans whose sizes do not fit together; then the outputs are unspecified.
template <typename Id>
void build_csc(std::span<const Id> source, std::span<const Id> target, std::int64_t num_nodes,
               std::span<std::int64_t> indptr, std::span<Id> indices, std::span<std::int64_t> order,
               int threads, bool sort_rows);

namespace detail {

/// build_csc with items of at least 4, 8, 12 or 16 bytes, always by buckets; 0 = as build_csc does.
/// Here so that tests reach every path without huge graphs.
template <typename Id>
void build_csc_as(int item_bytes, std::span<const Id> source, std::span<const Id> target,
                  std::int64_t num_nodes, std::span<std::int64_t> indptr, std::span<Id> indices,
                  std::span<std::int64_t> order, int threads, bool sort_rows);

}  // namespace detail

/// Marks parallel edges: keep[k] = 0 where edge k repeats the source before it in the same row
/// (rows must ascend), 1 elsewhere. Returns how many are 0.
template <typename Id>
std::int64_t dedup_rows(std::span<const std::int64_t> indptr, std::span<const Id> indices,
                        std::span<std::uint8_t> keep);

/// Moves the kept edges to the front of `indices`, in order, and fills `new_indptr` (N + 1 entries;
/// may be the same memory as `indptr`). Returns the number of kept edges; `indices` beyond it is
/// left as it was or overwritten.
template <typename Id>
std::int64_t compact_rows(std::span<const std::int64_t> indptr, std::span<Id> indices,
                          std::span<const std::uint8_t> keep, std::span<std::int64_t> new_indptr);

}  // namespace foregather
