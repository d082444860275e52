// Check relation: what is made sure of before a relation is walked.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/typed/typed_graph.hpp"

namespace foregather {

/// Throws InputError unless the rows of a relation cover its edges, its ids are vertices of its
/// source type and, where it has times, every edge has one and rows ascend by them.
template <typename Id>
void check_relation(const TypedRelation<Id>& relation, std::span<const std::int64_t> num_nodes,
                    int threads);

}  // namespace foregather
