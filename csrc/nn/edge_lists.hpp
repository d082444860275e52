// Edge lists: the edges of a batch by target, and the same edges by source, for both directions of
// a layer.
//
// Edges are numbered in the order in which the batch has them, which ascends by target. So the list
// of target t is the edges indptr[t] .. indptr[t + 1] with the rows source[e] they read; and the
// list of source s is ptr[s] .. ptr[s + 1], with edge[k] and target[k] for each of its entries k,
// both ascending. Sums over a list go along it, one edge after the other, whatever the number of
// threads.
//
// A batch of several hops is built once for all layers: the targets of a layer are the first ones.
// Because a source's list ascends by target, the entries that belong to the first targets are its
// beginning.
//
// Index is std::int32_t or std::int64_t; it must hold every number of edges, sources and targets.
#pragma once

#include <cstdint>
#include <span>

namespace foregather::nn {

/// Fills indptr (targets + 1 entries) and source from two rows of edges. Throws InputError where
/// targets do not ascend or an id is out of range; it names the first such edge.
template <typename Index>
void lists_by_target(std::span<const std::int64_t> from, std::span<const std::int64_t> to,
                     std::int64_t num_sources, std::span<std::int64_t> indptr,
                     std::span<Index> source, int threads);

/// Fills ptr (sources + 1 entries), edge and target (one entry an edge) from the lists by target.
template <typename Index>
void lists_by_source(std::span<const std::int64_t> indptr, std::span<const Index> source,
                     std::span<std::int64_t> ptr, std::span<Index> edge, std::span<Index> target,
                     int threads);

}  // namespace foregather::nn
