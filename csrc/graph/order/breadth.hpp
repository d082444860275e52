// Breadth: orders of nodes by breadth-first search from targets to their sources, as sampling goes.
//
// Rows are looked up anywhere, so the topology is at hand: 8 bytes a node and 4 (8) an edge, plus
// 4 bytes a node for the order and a bit for what was seen. One thread; linear in nodes and edges
// (for Cuthill-McKee with a sort of each row's new sources).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace foregather {

/// How a search goes on.
enum class Breadth {
  rows,     ///< sources in the order of the row
  degrees,  ///< sources with fewest sources first, and the whole order reversed: Cuthill-McKee
};

/// The nodes in the order of the search: order[k] is the k-th. Searches begin at `roots`, in their
/// order; nodes that none reaches follow in ascending order, each with what it reaches. Searches
/// stay within nodes of equal `part` where that is not empty: parts come one after the other, in
/// the order of the roots. Throws InputError for ids that are no nodes.
template <typename Id>
std::vector<std::uint32_t> breadth_first(std::span<const std::int64_t> indptr,
                                         std::span<const Id> indices, Breadth how,
                                         std::span<const std::uint32_t> roots,
                                         std::span<const std::uint32_t> part);

}  // namespace foregather
