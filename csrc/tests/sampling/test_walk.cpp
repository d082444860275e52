#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "sampling/keys.hpp"
#include "sampling/picking/draw.hpp"
#include "sampling/walk.hpp"
#include "tests/check.hpp"
#include "tests/sampled_graph.hpp"

using namespace foregather;

namespace {

// Neighbour lists ascend, so that an edge is found by binary search.
template <typename Id>
SampledGraph<Id> make_sorted(std::int64_t nodes, std::int64_t most) {
  auto graph =
      make_graph<Id>(nodes, most, [](std::int64_t v, std::int64_t j) { return v + 1 + j * j; });
  for (std::size_t v = 0; v + 1 < graph.indptr.size(); ++v) {
    std::sort(graph.indices.begin() + graph.indptr[v], graph.indices.begin() + graph.indptr[v + 1]);
  }
  return graph;
}

template <typename Id>
bool has_edge(const SampledGraph<Id>& graph, Id source, Id target) {
  const auto t = static_cast<std::size_t>(target);
  return std::binary_search(graph.indices.begin() + graph.indptr[t],
                            graph.indices.begin() + graph.indptr[t + 1], source);
}

template <typename Id>
void walks_follow_edges() {
  const auto graph = make_sorted<Id>(300, 9);
  std::vector<std::int64_t> starts(500);
  std::iota(starts.begin(), starts.end(), 0);
  for (auto& v : starts) v %= 300;
  Buffer<std::int64_t> scratch;
  std::vector<Id> path(500 * 6);
  walk<Id>(graph.view(), starts, 5, batch_key(1, 2, 3), path, scratch);
  for (std::size_t i = 0; i < 500; ++i) {
    CHECK(static_cast<std::int64_t>(path[i * 6]) == starts[i]);
    for (std::size_t step = 0; step < 5; ++step) {
      const Id at = path[i * 6 + step], next = path[i * 6 + step + 1];
      const auto v = static_cast<std::size_t>(at);
      const bool stuck = graph.indptr[v] == graph.indptr[v + 1];
      CHECK(stuck ? next == at : has_edge(graph, next, at));
    }
  }
  const std::vector<std::int64_t> bad{0, 300};
  CHECK_THROWS(walk<Id>(graph.view(), bad, 5, 0, path, scratch), InputError);
  walk<Id>(graph.view(), {}, 5, 0, {}, scratch);
}

template <typename Id>
void check_subgraph(const SampledGraph<Id>& graph, const SampleArrays<Id>& s) {
  const std::int64_t nodes = s.num_nodes[1];
  const std::set<Id> members(s.node.data(), s.node.data() + nodes);
  CHECK(static_cast<std::int64_t>(members.size()) == nodes);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < nodes; ++i) {
    const auto v = static_cast<std::size_t>(s.node[static_cast<std::size_t>(i)]);
    for (std::int64_t e = graph.indptr[v]; e < graph.indptr[v + 1]; ++e) {
      const Id source = graph.indices[static_cast<std::size_t>(e)];
      if (members.count(source) == 0) continue;
      const auto k = static_cast<std::size_t>(at++);
      CHECK(at <= s.num_edges[0]);
      CHECK(s.edge[k] == e && s.col[k] == static_cast<std::uint32_t>(i));
      CHECK(s.node[s.row[k]] == source);
    }
  }
  CHECK(at == s.num_edges[0]);
}

template <typename Id>
void subgraphs_are_complete_for_any_thread_count() {
  const auto graph = make_sorted<Id>(400, 30);
  std::vector<double> nodes(400), edges(400);
  cumulate_nodes<Id>(graph.view(), nodes);
  cumulate_edges<Id>(graph.view(), edges);
  std::vector<std::int64_t> seeds, ptr{0};
  for (std::int64_t batch = 0; batch < 10; ++batch) {
    for (std::int64_t i = 0; i < batch * 4; ++i) seeds.push_back((batch * 131 + i * i) % 400);
    ptr.push_back(static_cast<std::int64_t>(seeds.size()));
  }
  seeds.back() = 399;
  const std::vector<SubgraphRule> rules{{SubgraphKind::kGiven, 0, 0, 1, {}},
                                        {SubgraphKind::kWalk, 0, 4, 2, {}},
                                        {SubgraphKind::kNode, 40, 0, 1, nodes},
                                        {SubgraphKind::kEdge, 40, 0, 1, edges}};
  for (const auto& rule : rules) {
    std::vector<std::vector<SampleArrays<Id>>> results(2);
    for (std::size_t round = 0; round < 2; ++round) {
      std::vector<SubgraphWorker<Id>> workers(4);
      results[round].resize(10);
      std::vector<SampleArrays<Id>*> out;
      for (auto& arrays : results[round]) out.push_back(&arrays);
      sample_subgraphs<Id>(graph.view(), rule, seeds, ptr, 77, 5, round == 0 ? 1 : 4, workers, out);
    }
    for (std::size_t i = 0; i < 10; ++i) {
      const auto &a = results[0][i], &b = results[1][i];
      check_subgraph(graph, a);
      CHECK(a.num_nodes == b.num_nodes && a.num_edges == b.num_edges);
      CHECK(std::equal(a.node.data(), a.node.data() + a.num_nodes[1], b.node.data()));
      CHECK(a.seed_position == b.seed_position);
    }
  }
}

void bad_input_is_refused_and_forgotten() {
  const auto graph = make_sorted<std::uint32_t>(50, 7);
  SubgraphWorker<std::uint32_t> worker;
  SampleArrays<std::uint32_t> out;
  const SubgraphRule rule{SubgraphKind::kWalk, 0, 3, 1, {}};
  const std::vector<std::int64_t> good{1, 49, 1}, bad{3, 50}, worse{-1};
  CHECK_THROWS(worker.sample(graph.view(), rule, bad, 1, out), InputError);
  CHECK_THROWS(worker.sample(graph.view(), rule, worse, 1, out), InputError);
  for (std::uint64_t batch = 0; batch < 2000; ++batch) {
    worker.sample(graph.view(), rule, good, batch, out);
    CHECK(out.num_nodes[0] == 2 && out.seed_position[2] == 0);
    if (batch % 500 == 0) check_subgraph(graph, out);
  }
  const std::vector<double> nothing(50, 0.0);
  const SubgraphRule empty{SubgraphKind::kNode, 3, 0, 1, nothing};
  std::vector<SubgraphWorker<std::uint32_t>> workers(1);
  std::vector<SampleArrays<std::uint32_t>*> places{&out};
  const std::vector<std::int64_t> ptr{0, 0};
  CHECK_THROWS(
      sample_subgraphs<std::uint32_t>(graph.view(), empty, {}, ptr, 1, 0, 1, workers, places),
      InputError);
}

void sets_are_distinct() {
  std::vector<std::int64_t> out(5 * 8);
  draw_sets(9, 8, 4, 0, out);
  for (std::size_t row = 0; row < 5; ++row) {
    CHECK(std::is_sorted(&out[row * 8], &out[row * 8] + 8));
    CHECK(std::set<std::int64_t>(&out[row * 8], &out[row * 8] + 8).size() == 8);
    CHECK(out[row * 8] >= 0 && out[row * 8 + 7] < 9);
  }
  CHECK_THROWS(draw_sets(7, 8, 4, 0, out), InputError);
}

void local_ids_survive_growth_and_long_use() {
  Relabel local;
  local.begin(3);
  CHECK(local.insert(2) == 0 && local.insert(0) == 1 && local.insert(2) == 0);
  CHECK(local.find(1) == Relabel::kNone && local.known() == 2);
  local.begin(100000);  // a larger graph: nothing is known
  CHECK(local.find(2) == Relabel::kNone && local.insert(99999) == 0);
  local.begin(3);
  CHECK(local.find(2) == Relabel::kNone && local.insert(1) == 0 && local.find(1) == 0);
  local.begin(0);
  CHECK(local.known() == 0);
}

}  // namespace

int main() {
  walks_follow_edges<std::uint32_t>();
  walks_follow_edges<std::int64_t>();
  subgraphs_are_complete_for_any_thread_count<std::uint32_t>();
  subgraphs_are_complete_for_any_thread_count<std::int64_t>();
  bad_input_is_refused_and_forgotten();
  sets_are_distinct();
  local_ids_survive_growth_and_long_use();
  return 0;
}
