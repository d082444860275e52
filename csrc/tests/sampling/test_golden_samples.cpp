#include <cmath>
#include <vector>

#include "sampling/layerwise/typed_layerwise.hpp"
#include "sampling/nodewise/labor.hpp"
#include "sampling/nodewise/sample.hpp"
#include "sampling/typed/typed_sample.hpp"
#include "sampling/walk.hpp"
#include "tests/golden.hpp"
#include "tests/sampled_graph.hpp"

using namespace foregather;

namespace {

using Ints = std::vector<std::int64_t>;
using Id = std::uint32_t;

void add_sample(Digest& digest, const SampleArrays<Id>& s) {
  std::int64_t edges = 0;
  for (const std::int64_t count : s.num_edges) edges += count;
  digest.add(s.num_nodes);
  digest.add(s.num_edges);
  digest.add(s.seed_position);
  digest.add(s.node.data(), s.num_nodes.back());
  digest.add(s.row.data(), edges);
  digest.add(s.col.data(), edges);
  digest.add(s.edge.data(), edges);
  if (s.weighted) digest.add(s.weight.data(), edges);
}

// Vertices of all degrees up to 90, one with all; weights over many magnitudes.
SampledGraph<Id> weighted_graph() {
  auto graph = make_graph<Id>(400, 90);
  for (std::size_t e = 0; e < graph.indices.size(); ++e) {
    graph.weights.push_back(
        std::ldexp(1.0f + static_cast<float>(e % 3) / 3.0f, static_cast<int>(e * e % 40) - 20));
  }
  return graph;
}

template <typename Worker, typename Rule>
Digest sample_digest(const SampledGraph<Id>& graph, const Rule& rule) {
  Ints seeds, ptr{0};
  for (std::int64_t batch = 0; batch < 9; ++batch) {
    for (std::int64_t i = 0; i < batch * 3; ++i) seeds.push_back((batch * 131 + i * i) % 400);
    ptr.push_back(static_cast<std::int64_t>(seeds.size()));
  }
  seeds.back() = 399;  // the vertex with all neighbours
  std::vector<SampleArrays<Id>> made(9);
  std::vector<SampleArrays<Id>*> out;
  for (auto& arrays : made) out.push_back(&arrays);
  std::vector<Worker> workers(2);
  sample_bulk<Id, Worker>(graph.view(), rule, seeds, ptr, 7, 1, 5, 2, workers, out);
  Digest digest;
  for (const auto& arrays : made) add_sample(digest, arrays);
  return digest;
}

void nodewise() {
  const auto graph = weighted_graph();
  using Neighbor = NeighborWorker<Id>;
  const Ints fanouts{40, -1, 3};
  expect("neighbor", sample_digest<Neighbor>(graph, NeighborRule{fanouts, false, true}),
         0x693ee50d77494925);
  expect("neighbor with replacement",
         sample_digest<Neighbor>(graph, NeighborRule{fanouts, true, true}), 0x976b778b977a0928);
  expect("neighbor per layer", sample_digest<Neighbor>(graph, NeighborRule{fanouts, false, false}),
         0x654cad1f989a4af1);
  Buffer<AliasCell> cells;
  std::vector<std::uint32_t> positive;
  prepare_weights(graph.indptr, graph.weights, cells, positive, 2);
  NeighborRule weighted{fanouts, false, true};
  weighted.weights = {graph.weights, {cells.data(), graph.weights.size()}, positive};
  expect("weighted", sample_digest<Neighbor>(graph, weighted), 0x3ab74e4038d2a864);
  weighted.replace = true;
  expect("weighted with replacement", sample_digest<Neighbor>(graph, weighted), 0x967f20b99b7c535c);
  const LaborRule labor{fanouts, false, true, LaborWeight::kExact, graph.weights};
  expect("labor", sample_digest<LaborWorker<Id>>(graph, labor), 0x305c5805dfa21124);
}

void layerwise() {
  const auto graph = weighted_graph();
  Ints sums(400);
  const double unit = square_columns<Id>(graph.indptr, graph.indices, graph.weights, sums, 2);
  std::vector<double> columns;
  std::int64_t whole = 0;
  for (const std::int64_t sum : sums) {
    columns.push_back(static_cast<double>(sum) * unit);
    whole += sum;
  }
  const Arrivals arrivals(columns);
  const Ints sizes{9, -1, 4}, ptr{0, 3, 5};
  const std::vector<Id> seeds{300, 5, 17, 100, 0};
  const LayerwiseRule ladies{sizes, Debias::kExact, {}, 0, nullptr};
  const LayerwiseRule fastgcn{sizes, Debias::kExact, columns, static_cast<double>(whole) * unit,
                              &arrivals};
  const auto digest_of = [&](const LayerwiseRule& rule) {
    LayerwiseTables<Id> tables;
    Digest digest;
    for (const auto& one : sample_layerwise<Id>({graph.indptr, graph.indices, graph.weights}, rule,
                                                {seeds, ptr, 7, 2, 30}, tables, 1)) {
      digest.add(one.num_nodes);
      digest.add(one.node);
      digest.add(one.row);
      digest.add(one.col);
      digest.add(one.edge);
      digest.add(one.weight);
    }
    return digest;
  };
  expect("ladies", digest_of(ladies), 0xa0a9ad6028427ee8);
  expect("fastgcn", digest_of(fastgcn), 0xa50af18a305a4a5d);
}

void walks() {
  const auto graph = make_graph<Id>(300, 9);
  Ints starts;
  for (std::int64_t v = 0; v < 500; ++v) starts.push_back(v % 300);
  Buffer<std::int64_t> scratch;
  std::vector<Id> path(500 * 6);
  walk<Id>(graph.view(), starts, 5, 12345, path, scratch);
  Digest digest;
  digest.add(path);
  expect("walk", digest, 0x7bc38c74dd794a74);
}

// Trees in a graph of two types whose edges have times.
void typed_trees() {
  const auto graph = make_graph<Id>(300, 70);
  Ints time;
  for (std::size_t v = 0; v + 1 < graph.indptr.size(); ++v) {
    for (std::int64_t j = 0; j < graph.indptr[v + 1] - graph.indptr[v]; ++j) time.push_back(j / 2);
  }
  const TypedGraph<Id> typed{
      {300, 300}, {{graph.view(), 0, 1, {6, 3}, {}, time}, {graph.view(), 1, 0, {4, 4}, {}, time}}};
  Ints seeds, rows, times;
  for (std::int64_t i = 0; i < 90; ++i) {
    seeds.push_back(i * 37 % 300);
    rows.push_back(1000 - i);
    times.push_back(i - 4);
  }
  const Ints cuts{0, 50, 90};
  std::vector<TypedArrays<Id>> made(2);
  std::vector<TypedArrays<Id>*> out{&made[0], &made[1]};
  std::vector<TypedWorker<Id>> workers(2);
  const std::vector<TypedSeeds> groups{{1, seeds, cuts, rows, times}};
  sample_typed<Id>(typed, {2, false, true, false, false}, groups, 7, 2, 30, 2, workers, out);
  Digest digest;
  for (const auto& batch : made) {
    for (const auto& type : batch.types) {
      digest.add(type.num_nodes);
      digest.add(type.node.data(), type.num_nodes.back());
      digest.add(type.tree.data(), type.num_nodes.back());
    }
    for (const auto& relation : batch.relations) {
      digest.add(relation.row.data(), relation.count);
      digest.add(relation.col.data(), relation.count);
      digest.add(relation.edge.data(), relation.count);
    }
  }
  expect("typed trees", digest, 0x3da5bf10ad6c328d);
}

}  // namespace

int main() {
  nodewise();
  layerwise();
  walks();
  typed_trees();
  return failures;
}
