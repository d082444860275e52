// Draws by weight and Labor: memory stays in bounds, threads change nothing, weights are refused.
#include <algorithm>
#include <cmath>
#include <vector>

#include "sampling/nodewise/labor.hpp"
#include "sampling/nodewise/sample.hpp"
#include "tests/check.hpp"
#include "tests/sampled_graph.hpp"

using namespace foregather;

namespace {

// Vertex v has v % 90 in-neighbours, the last one all; weights over many magnitudes, some 0.
template <typename Id>
SampledGraph<Id> make_weighted(std::int64_t nodes, bool zeros) {
  auto graph = make_graph<Id>(nodes, 90);
  for (std::int64_t v = 0; v < nodes; ++v) {
    const auto at = static_cast<std::size_t>(v);
    for (std::int64_t j = 0; j < graph.indptr[at + 1] - graph.indptr[at]; ++j) {
      const bool none = zeros && j > 0 && j % 3 == 0;
      graph.weights.push_back(none ? 0 : std::ldexp(1.0f, static_cast<int>((v * j) % 40) - 20));
    }
  }
  return graph;
}

// The same bulk on one thread and on four; returns that of one.
template <typename Id, typename Worker, typename Rule>
std::vector<SampleArrays<Id>> sample_twice(const SampledGraph<Id>& graph, const Rule& rule) {
  std::vector<std::int64_t> seeds, ptr{0};
  for (std::int64_t batch = 0; batch < 9; ++batch) {
    for (std::int64_t i = 0; i < batch * 3; ++i) seeds.push_back((batch * 131 + i * i) % 400);
    ptr.push_back(static_cast<std::int64_t>(seeds.size()));
  }
  seeds.back() = 399;  // the vertex with all neighbours
  std::vector<SampleArrays<Id>> first(9), second(9);
  for (auto* results : {&first, &second}) {
    std::vector<Worker> workers(4);
    std::vector<SampleArrays<Id>*> out;
    for (auto& arrays : *results) out.push_back(&arrays);
    sample_bulk<Id, Worker>(graph.view(), rule, seeds, ptr, 7, 1, 5, results == &first ? 1 : 4,
                            workers, out);
  }
  for (std::size_t i = 0; i < 9; ++i) {
    const auto &a = first[i], &b = second[i];
    CHECK(a.num_nodes == b.num_nodes && a.num_edges == b.num_edges);
    CHECK(std::equal(a.node.data(), a.node.data() + a.num_nodes.back(), b.node.data()));
    std::int64_t edges = 0;
    for (const std::int64_t count : a.num_edges) edges += count;
    CHECK(std::equal(a.edge.data(), a.edge.data() + edges, b.edge.data()));
    for (std::int64_t e = 0; e < edges; ++e) {
      const auto at = static_cast<std::size_t>(e);
      CHECK(graph.indices[static_cast<std::size_t>(a.edge[at])] == a.node[a.row[at]]);
    }
  }
  return first;
}

template <typename Id>
void weighted() {
  for (const bool zeros : {false, true}) {
    const auto graph = make_weighted<Id>(400, zeros);
    Buffer<AliasCell> cells;
    std::vector<std::uint32_t> positive;
    prepare_weights(graph.indptr, graph.weights, cells, positive, 3);
    CHECK(positive.empty() != zeros);
    for (const bool replace : {false, true}) {
      NeighborRule rule{{40, -1, 3}, replace, true, {}};
      rule.weights = {graph.weights, {cells.data(), graph.weights.size()}, positive};
      for (const auto& s : sample_twice<Id, NeighborWorker<Id>>(graph, rule)) {
        for (std::int64_t e = 0; e < s.num_edges[0]; ++e) {
          const auto edge = s.edge[static_cast<std::size_t>(e)];
          CHECK(graph.weights[static_cast<std::size_t>(edge)] > 0);
        }
      }
    }
  }
}

template <typename Id>
void labor() {
  const auto graph = make_weighted<Id>(400, false);
  for (const auto weight : {LaborWeight::kNone, LaborWeight::kExact, LaborWeight::kReference}) {
    for (const bool own : {false, true}) {
      LaborRule rule{{40, -1, 3}, false, own, weight, {}};
      if (own) rule.values = graph.weights;
      for (const auto& s : sample_twice<Id, LaborWorker<Id>>(graph, rule)) {
        CHECK(s.weighted == (weight != LaborWeight::kNone));
      }
    }
  }
}

void bad_weights_are_refused() {
  const std::vector<std::int64_t> indptr{0, 2, 2, 3};
  Buffer<AliasCell> cells;
  std::vector<std::uint32_t> positive;
  const std::vector<std::vector<float>> wrong{
      {1, -1, 1}, {1, std::nanf(""), 1}, {1, 1, INFINITY}, {1, 1, 0}, {1, 1}};
  for (const auto& weights : wrong) {
    CHECK_THROWS(prepare_weights(indptr, weights, cells, positive, 1), InputError);
  }
  prepare_weights(indptr, std::vector<float>{0, 1, 1}, cells, positive, 1);
  CHECK(positive == (std::vector<std::uint32_t>{1, 0, 1}));
}

}  // namespace

int main() {
  weighted<std::uint32_t>();
  weighted<std::int64_t>();
  labor<std::uint32_t>();
  labor<std::int64_t>();
  bad_weights_are_refused();
  return 0;
}
