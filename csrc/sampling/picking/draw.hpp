// Draw: vertices and edges by weight, and sets of distinct numbers: the draws of GraphSAINT.
//
// The weight of a vertex is the squared norm of its column in the matrix of mean aggregation with a
// self-loop: (u -> t has the entry 1 / (deg t + 1), and u itself 1 / (deg u + 1)). The self-loop
// gives every vertex, isolated ones too, a weight above zero. The weight of an edge u -> v is
// 1 / deg u + 1 / deg v. Degrees are in-degrees, and at least 1 where they divide.
//
// Draw number i of a minibatch inverts the running sums with to_unit(draw(layer_key(key, 0), i)).
// An edge takes two draws: its target by the sums of rows, then, with layer 1, its position by a
// scan of the row. Memory is 8 bytes per vertex, not 8 per edge. Draws are with replacement.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/nodewise/sample.hpp"

namespace foregather {

/// cumulative[v] = sum of the weights of vertices 0 to v, added in the order of edges and then of
/// vertices, so that the bits do not depend on threads.
template <typename Id>
void cumulate_nodes(const Topology<Id>& graph, std::span<double> cumulative);

/// cumulative[v] = sum of the weights of all edges with a target of 0 to v.
template <typename Id>
void cumulate_edges(const Topology<Id>& graph, std::span<double> cumulative);

/// out.size() vertices. The last entry of cumulative must be above zero.
template <typename Id>
void draw_nodes(std::span<const double> cumulative, std::uint64_t key, std::span<Id> out);

/// out.size() / 2 edges as source, target, source, target, ...
template <typename Id>
void draw_edges(const Topology<Id>& graph, std::span<const double> cumulative, std::uint64_t key,
                std::span<Id> out);

/// For each row of out, `size` distinct numbers below `population`, ascending, every set equally
/// likely; row i under derive(key, first + i). Throws InputError unless size <= population < 2^32.
void draw_sets(std::int64_t population, std::int64_t size, std::uint64_t key, std::uint64_t first,
               std::span<std::int64_t> out);

}  // namespace foregather
