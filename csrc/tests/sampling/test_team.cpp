#include <algorithm>
#include <new>
#include <vector>

#include "sampling/keys.hpp"
#include "sampling/nodewise/sample.hpp"
#include "sampling/nodewise/team_layer.hpp"
#include "tests/check.hpp"
#include "tests/sampled_graph.hpp"

using namespace foregather;

namespace {

template <typename Id>
bool alike(const SampleArrays<Id>& a, const SampleArrays<Id>& b) {
  std::int64_t edges = 0;
  for (const std::int64_t count : a.num_edges) edges += count;
  return a.num_nodes == b.num_nodes && a.num_edges == b.num_edges &&
         a.seed_position == b.seed_position &&
         std::equal(a.node.data(), a.node.data() + a.num_nodes.back(), b.node.data()) &&
         std::equal(a.row.data(), a.row.data() + edges, b.row.data()) &&
         std::equal(a.col.data(), a.col.data() + edges, b.col.data()) &&
         std::equal(a.edge.data(), a.edge.data() + edges, b.edge.data());
}

// Minibatches large enough for teams, with one of a few seeds among them.
template <typename Id>
void teams_make_the_samples_of_one_thread(bool weighted) {
  auto graph = make_graph<Id>(9001, 40);
  Buffer<AliasCell> cells;
  std::vector<std::uint32_t> positive;
  NeighborRule rule{{15, -1, 3}, false, true};
  if (weighted) {
    for (std::size_t e = 0; e < graph.indices.size(); ++e) {
      graph.weights.push_back(static_cast<float>(e % 7) / 4);
    }
    for (std::size_t v = 0; v + 1 < graph.indptr.size(); ++v) {
      if (graph.indptr[v] < graph.indptr[v + 1]) {
        graph.weights[static_cast<std::size_t>(graph.indptr[v])] = 1;
      }
    }
    prepare_weights(graph.indptr, graph.weights, cells, positive, 1);
    rule.weights = {graph.weights, {cells.data(), graph.weights.size()}, positive};
  }
  std::vector<std::int64_t> seeds, ptr{0};
  for (const std::int64_t size : {1500, 3, 2000}) {
    for (std::int64_t i = 0; i < size; ++i) seeds.push_back((i * 7919 + size) % 9001);
    ptr.push_back(static_cast<std::int64_t>(seeds.size()));
  }
  std::vector<SampleArrays<Id>> want(3);
  for (const int threads : {1, 2, 6, 9}) {
    std::vector<NeighborWorker<Id>> workers(static_cast<std::size_t>(threads));
    std::vector<SampleArrays<Id>> made(3);
    std::vector<SampleArrays<Id>*> out;
    for (auto& arrays : threads == 1 ? want : made) out.push_back(&arrays);
    for (int round = 0; round < 2; ++round) {
      sample_bulk<Id, NeighborWorker<Id>>(graph.view(), rule, seeds, ptr, 7, 1, 5, threads, workers,
                                          out);
    }
    for (std::size_t i = 0; i < 3; ++i) CHECK(threads == 1 || alike(want[i], made[i]));
  }
}

// A draw that fails in the middle of a layer.
struct Failing {
  static constexpr bool kAsks = false, kReads = false;
  std::int64_t fails_at;
  std::int64_t likely(const FrontierRow<std::uint32_t>& row) const { return row.degree; }
  std::int64_t most(const FrontierRow<std::uint32_t>& row) const { return row.degree; }
  bool whole(const FrontierRow<std::uint32_t>&) const { return false; }
  void ask(const FrontierRow<std::uint32_t>&) {}
  void weigh(const FrontierRow<std::uint32_t>&, const std::int64_t*, std::uint32_t, float*) {}
  std::uint32_t operator()(const FrontierRow<std::uint32_t>& row, std::int64_t* edge) {
    if (row.node == fails_at) throw std::bad_alloc();
    for (std::uint32_t p = 0; p < row.degree; ++p) edge[p] = row.begin + p;
    return row.degree;
  }
};

void a_failure_ends_all_threads() {
  const auto graph = make_graph<std::uint32_t>(6000, 40);
  std::vector<std::int64_t> seeds;
  for (std::int64_t v = 0; v < 5000; ++v) seeds.push_back(v);
  for (const std::int64_t at : {5, 2500, 4999}) {
    Expansion<std::uint32_t> expansion;
    SampleArrays<std::uint32_t> out;
    std::vector<Failing> draws(4, Failing{at});
    expansion.start(graph.view(), seeds, false, out);
    CHECK_THROWS(expansion.layer_by_team(graph.view(), 0, std::span<Failing>(draws), out),
                 std::bad_alloc);
    std::vector<Failing> good(4, Failing{-1});
    expansion.start(graph.view(), seeds, false, out);
    expansion.layer_by_team(graph.view(), 0, std::span<Failing>(good), out);
    CHECK(out.num_edges[0] > kTeamEdges);
  }
}

void few_edges_wake_nobody() {
  const std::vector<std::int64_t> small{10, 10}, large{15, 10, 5}, whole{-1};
  CHECK(useful_threads(8, small, 256, std::int64_t{1} << 40) == 1);
  CHECK(useful_threads(8, large, 8192, std::int64_t{1} << 40) == 8);
  CHECK(useful_threads(8, large, 8192, 10'000) == 1);  // the graph has no more
  CHECK(useful_threads(8, whole, 1, std::int64_t{1} << 40) == 8);
  CHECK(useful_threads(8, whole, 1, 3 << 15) == 3);
  CHECK(useful_threads(8, large, 0, 0) == 1);
  const std::vector<std::int64_t> huge{(std::int64_t{1} << 31) - 1, (std::int64_t{1} << 31) - 1};
  CHECK(useful_threads(8, huge, std::int64_t{1} << 31, std::int64_t{1} << 62) == 8);
}

}  // namespace

int main() {
  for (const bool weighted : {false, true}) {
    teams_make_the_samples_of_one_thread<std::uint32_t>(weighted);
    teams_make_the_samples_of_one_thread<std::int64_t>(weighted);
  }
  a_failure_ends_all_threads();
  few_edges_wake_nobody();
  return 0;
}
