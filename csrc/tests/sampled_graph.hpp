// Sampled graph: the graph that tests of samplers draw from, with vertices of all degrees.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/nodewise/expand.hpp"

namespace foregather {

template <typename Id>
struct SampledGraph {
  std::vector<std::int64_t> indptr{0};
  std::vector<Id> indices;
  std::vector<float> weights;  ///< empty, or one per edge
  Topology<Id> view() const { return {indptr, indices}; }
};

/// Vertex v has v % most in-neighbours, so some have none; the last one has all. The j-th of v is
/// `neighbor(v, j)`, modulo the number of vertices.
template <typename Id, typename Neighbor>
SampledGraph<Id> make_graph(std::int64_t nodes, std::int64_t most, Neighbor neighbor) {
  SampledGraph<Id> graph;
  for (std::int64_t v = 0; v < nodes; ++v) {
    const std::int64_t degree = v + 1 == nodes ? nodes : v % most;
    for (std::int64_t j = 0; j < degree; ++j) {
      graph.indices.push_back(static_cast<Id>(degree == nodes ? j : neighbor(v, j) % nodes));
    }
    graph.indptr.push_back(static_cast<std::int64_t>(graph.indices.size()));
  }
  return graph;
}

/// The same, with the vertices after v as its in-neighbours.
template <typename Id>
SampledGraph<Id> make_graph(std::int64_t nodes, std::int64_t most) {
  return make_graph<Id>(nodes, most, [](std::int64_t v, std::int64_t j) { return v + 1 + j; });
}

}  // namespace foregather
