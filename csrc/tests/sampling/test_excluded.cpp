#include <algorithm>
#include <vector>

#include "sampling/links/excluded.hpp"
#include "sampling/nodewise/labor.hpp"
#include "sampling/nodewise/sample.hpp"
#include "sampling/nodewise/trees.hpp"
#include "sampling/typed/typed_sample.hpp"
#include "tests/check.hpp"
#include "tests/sampled_graph.hpp"

using namespace foregather;

namespace {

using Ints = std::vector<std::int64_t>;
constexpr std::int64_t kNodes = 900;

// The graph without the edges at these ascending positions, and where the others were.
template <typename Id>
SampledGraph<Id> without(const SampledGraph<Id>& graph, const Ints& gone, Ints& kept) {
  SampledGraph<Id> less;
  for (std::size_t v = 0; v + 1 < graph.indptr.size(); ++v) {
    for (std::int64_t e = graph.indptr[v]; e < graph.indptr[v + 1]; ++e) {
      if (std::binary_search(gone.begin(), gone.end(), e)) continue;
      kept.push_back(e);
      less.indices.push_back(graph.indices[static_cast<std::size_t>(e)]);
    }
    less.indptr.push_back(static_cast<std::int64_t>(less.indices.size()));
  }
  return less;
}

template <typename Id>
bool alike(const SampleArrays<Id>& got, const SampleArrays<Id>& want, const Ints& kept) {
  if (got.num_nodes != want.num_nodes || got.num_edges != want.num_edges) return false;
  std::int64_t edges = 0;
  for (const std::int64_t count : got.num_edges) edges += count;
  for (std::int64_t i = 0; i < edges; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (got.row[at] != want.row[at] || got.col[at] != want.col[at]) return false;
    if (got.edge[at] != kept[static_cast<std::size_t>(want.edge[at])]) return false;
    if (got.weighted && got.weight[at] != want.weight[at]) return false;
  }
  return std::equal(got.node.data(), got.node.data() + got.num_nodes.back(), want.node.data());
}

// Every ninth edge, by number or, where that is the same, by ends.
template <typename Id>
struct LeftOut {
  SampledGraph<Id> graph = make_graph<Id>(kNodes, 70), less;
  Ints gone, kept, ptr, edge, target, source;

  explicit LeftOut(std::size_t batches) {
    for (std::size_t v = 0; v + 1 < graph.indptr.size(); ++v) {  // sources ascend in rows
      std::sort(graph.indices.begin() + graph.indptr[v],
                graph.indices.begin() + graph.indptr[v + 1]);
    }
    for (std::size_t e = 0; e < graph.indices.size(); e += 9) {
      gone.push_back(static_cast<std::int64_t>(e));
    }
    less = without(graph, gone, kept);
    for (std::size_t b = 0; b <= batches; ++b) {
      ptr.push_back(static_cast<std::int64_t>(b * gone.size()));
    }
    for (std::size_t b = 0; b < batches; ++b) edge.insert(edge.end(), gone.rbegin(), gone.rend());
    for (const std::int64_t e : edge) {
      const auto end = std::upper_bound(graph.indptr.begin(), graph.indptr.end(), e);
      target.push_back(end - graph.indptr.begin() - 1);
      source.push_back(static_cast<std::int64_t>(graph.indices[static_cast<std::size_t>(e)]));
    }
  }
  ExcludedEdges by_number() const { return {ptr, {}, {}, edge, {}, true}; }
  ExcludedEdges by_ends(bool ascending) const { return {ptr, target, source, {}, {}, ascending}; }
};

template <typename Id, typename Worker, typename Rule>
std::vector<SampleArrays<Id>> sampled(const SampledGraph<Id>& graph, const Rule& rule,
                                      const ExcludedEdges& excluded, int threads) {
  const Ints seeds{899, 3, 250, 251, 252, 253, 17, 899, 600}, ptr{0, 6, 6, 9};
  std::vector<SampleArrays<Id>> made(3);
  std::vector<SampleArrays<Id>*> out;
  for (auto& one : made) out.push_back(&one);
  std::vector<Worker> workers(static_cast<std::size_t>(threads));
  for (int again = 0; again < 2; ++again) {
    sample_bulk<Id, Worker, Rule>(graph.view(), rule, seeds, ptr, 7, 1, 5, threads, workers, out,
                                  excluded);
  }
  std::size_t held = 0;
  for (const auto& worker : workers) held += worker.bytes();
  CHECK(held > 0);
  return made;
}

template <typename Id, typename Worker, typename Rule>
void samples_are_those_of_a_graph_without_the_edges(const Rule& rule) {
  const LeftOut<Id> own(3);
  const auto want = sampled<Id, Worker>(own.less, rule, {}, 1);
  for (const ExcludedEdges& excluded : {own.by_number(), own.by_ends(true), own.by_ends(false)}) {
    for (const int threads : {1, 7}) {
      const auto got = sampled<Id, Worker>(own.graph, rule, excluded, threads);
      for (std::size_t b = 0; b < 3; ++b) CHECK(alike(got[b], want[b], own.kept));
    }
  }
}

// In trees an entry belongs to one of them.
template <typename Id>
void trees_leave_out_their_own() {
  using Worker = NeighborWorker<Id>;
  const LeftOut<Id> own(1);
  const NeighborRule rule{{6, 4}, false, true, {}};
  const Ints seeds{899, 400, 899}, rows{5, 6, 5}, ptr{0, 3};
  const auto trees = [&](const SampledGraph<Id>& graph, const ExcludedEdges& excluded) {
    SampleArrays<Id> made;
    std::vector<SampleArrays<Id>*> out{&made};
    std::vector<Worker> workers(1);
    std::vector<TreeJoin<Id>> joins(1);
    sample_trees<Id, Worker, NeighborRule>(graph.view(), rule, seeds, rows, ptr, 7, 1, 1, workers,
                                           joins, out, excluded);
    std::vector<Ints> edges(3);
    for (std::int64_t e = 0; e < made.num_edges[0] + made.num_edges[1]; ++e) {
      const auto at = static_cast<std::size_t>(e);
      edges[made.tree[made.col[at]]].push_back(made.edge[at]);
    }
    return edges;
  };
  Ints of(own.gone.size(), 2);
  ExcludedEdges excluded = own.by_number();
  excluded.tree = of;
  const auto plain = trees(own.graph, {}), got = trees(own.graph, excluded);
  CHECK(got[0] == plain[0] && got[1] == plain[1] && got[2] != plain[2]);
  auto less = trees(own.less, {})[2];
  for (std::int64_t& e : less) e = own.kept[static_cast<std::size_t>(e)];
  CHECK(got[2] == less);
}

// The last edges of a prefix, of which some are left out.
template <typename Id>
void the_last_that_are_left_are_taken() {
  SampledGraph<Id> graph = make_graph<Id>(40, 40);
  Ints time;
  for (std::size_t e = 0; e < graph.indices.size(); ++e) time.push_back(0);
  TypedGraph<Id> typed{{40}, {}};
  typed.relations.push_back({graph.view(), 0, 0, {4}, {}, time});
  const TypedRule rule{1, false, true, true, false};
  const Ints seeds{20, 30}, ptr{0, 2}, rows{1, 2}, times{0, 0};
  const std::int64_t end = graph.indptr[31];
  const Ints cuts{0, 4}, gone{end - 1, end - 3, end - 4, end - 30}, tree{1, 1, 1, 1};
  const ExcludedEdges excluded{cuts, {}, {}, gone, tree, false};
  std::vector<TypedWorker<Id>> workers(1);
  TypedArrays<Id> made;
  std::vector<TypedArrays<Id>*> out{&made};
  const std::vector<TypedSeeds> groups{{0, seeds, ptr, rows, times}};
  sample_typed<Id>(typed, rule, groups, 1, 0, 0, 1, workers, out, std::vector{excluded});
  const std::int64_t other = graph.indptr[21];
  const Ints want{other - 4, other - 3, other - 2, other - 1, end - 7, end - 6, end - 5, end - 2};
  const RelationArrays& edges = made.relations[0];
  CHECK(edges.count == 8 && std::equal(want.begin(), want.end(), edges.edge.data()));
  CHECK(workers[0].bytes() > 0);
}

void what_does_not_fit_is_refused() {
  const SampledGraph<std::uint32_t> graph = make_graph<std::uint32_t>(40, 40);
  const Ints ptr{0, 1}, far{1 << 20}, one{0}, two{0, 0}, back{1, 0};
  ExcludedRows rows;
  CHECK_THROWS(rows.begin<std::uint32_t>({ptr, {}, {}, far, {}, true}, 0, graph.view()),
               InputError);
  CHECK_THROWS(rows.begin<std::uint32_t>({ptr, far, one, {}, {}, true}, 0, graph.view()),
               InputError);
  rows.begin<std::uint32_t>({ptr, one, far, {}, {}, true}, 0, graph.view());
  CHECK(rows.empty());
  CHECK_THROWS(ExcludedEdges({ptr, {}, {}, one, {}, true}).check(2), InputError);
  CHECK_THROWS(ExcludedEdges({ptr, {}, {}, two, {}, true}).check(1), InputError);
  CHECK_THROWS(ExcludedEdges({ptr, {}, {}, one, two, true}).check(1), InputError);
  CHECK_THROWS(ExcludedEdges({ptr, one, {}, {}, {}, true}).check(1), InputError);
  CHECK_THROWS(ExcludedEdges({back, {}, {}, one, {}, true}).check(1), InputError);
}

template <typename Id>
void run_all() {
  using Neighbor = NeighborWorker<Id>;
  const auto check = [](const NeighborRule& rule) {
    samples_are_those_of_a_graph_without_the_edges<Id, Neighbor>(rule);
  };
  check({{10, 5}, false, true, {}});
  check({{10, 5}, true, true, {}});
  check({{-1, 3}, false, false, {}});
  check({{20, 90, 9}, false, true, {}});
  for (const LaborWeight weight : {LaborWeight::kNone, LaborWeight::kExact}) {
    LaborRule rule;
    rule.fanouts = {6, -1};
    rule.weight = weight;
    samples_are_those_of_a_graph_without_the_edges<Id, LaborWorker<Id>>(rule);
  }
  trees_leave_out_their_own<Id>();
  the_last_that_are_left_are_taken<Id>();
}

}  // namespace

int main() {
  run_all<std::uint32_t>();
  run_all<std::int64_t>();
  what_does_not_fit_is_refused();
}
