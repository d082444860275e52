#include <algorithm>
#include <vector>

#include "sampling/layerwise/typed_layerwise.hpp"
#include "tests/check.hpp"
#include "tests/sampled_graph.hpp"

using namespace foregather;

namespace {

using Ints = std::vector<std::int64_t>;
constexpr std::int64_t kNodes = 301;

// The weights of the columns over all rows, and what draws from them.
struct Columns {
  std::vector<double> weights;
  double total = 0;
};

template <typename Id>
Columns columns_of(const SampledGraph<Id>& graph, std::int64_t sources) {
  Ints sums(static_cast<std::size_t>(sources));
  const double unit = square_columns<Id>(graph.indptr, graph.indices, graph.weights, sums, 2);
  Columns made;
  std::int64_t whole = 0;
  for (const std::int64_t sum : sums) {
    made.weights.push_back(static_cast<double>(sum) * unit);
    whole += sum;
  }
  made.total = static_cast<double>(whole) * unit;
  return made;
}

template <typename Id>
std::vector<TypedArrays<Id>> sampled(const LayerwiseTypes<Id>& graph,
                                     const std::vector<TypedSeeds>& seeds, std::size_t count,
                                     int threads) {
  std::vector<TypedArrays<Id>> made(count);
  std::vector<TypedArrays<Id>*> out;
  for (auto& one : made) out.push_back(&one);
  std::vector<TypedLayerwiseWorker<Id>> workers(static_cast<std::size_t>(threads));
  for (int again = 0; again < 2; ++again) {  // the second time with memory that is used again
    sample_typed_layerwise<Id>(graph, seeds, 7, 2, 30, threads, workers, out);
  }
  return made;
}

// One type and one relation is the plain sampler, for LADIES and FastGCN, by every weighting.
template <typename Id>
void one_relation_is_plain_sampling(bool weighted, bool fastgcn, Debias debias) {
  SampledGraph<Id> graph = make_graph<Id>(kNodes, 40);
  for (std::size_t e = 0; weighted && e < graph.indices.size(); ++e) {
    graph.weights.push_back(static_cast<float>(e % 7) - 2);
  }
  const Columns columns = columns_of(graph, kNodes);
  const Arrivals arrivals(columns.weights);
  const Ints sizes{9, -1, 4};
  LayerwiseRule rule{sizes, debias, {}, 0, nullptr};
  LayerwiseTypes<Id> typed{
      {kNodes},
      {{{graph.indptr, graph.indices, graph.weights}, 0, 0, sizes, {}, 0, nullptr}},
      3,
      debias};
  if (fastgcn) {
    rule = {sizes, debias, columns.weights, columns.total, &arrivals};
    typed.relations[0].column_weights = columns.weights;
    typed.relations[0].total = columns.total;
    typed.relations[0].arrivals = &arrivals;
  }
  const Ints seeds{300, 5, 17, 100, 0}, ptr{0, 3, 5, 5};
  const std::vector<Id> ids(seeds.begin(), seeds.end());
  LayerwiseTables<Id> tables;
  const auto want = sample_layerwise<Id>({graph.indptr, graph.indices, graph.weights}, rule,
                                         {ids, ptr, 7, 2, 30}, tables, 1);
  for (const int threads : {1, 3}) {
    const auto made = sampled<Id>(typed, {{0, seeds, ptr, {}, {}}}, 3, threads);
    for (std::size_t b = 0; b < 3; ++b) {
      const TypeArrays<Id>& nodes = made[b].types[0];
      const RelationArrays& edges = made[b].relations[0];
      CHECK(nodes.num_nodes == want[b].num_nodes && edges.num_edges == want[b].num_edges);
      CHECK(edges.count == static_cast<std::int64_t>(want[b].edge.size()));
      CHECK(std::equal(want[b].node.begin(), want[b].node.end(), nodes.node.data()));
      CHECK(std::equal(want[b].row.begin(), want[b].row.end(), edges.row.data()));
      CHECK(std::equal(want[b].col.begin(), want[b].col.end(), edges.col.data()));
      CHECK(std::equal(want[b].edge.begin(), want[b].edge.end(), edges.edge.data()));
      CHECK(edges.weighted == (debias != Debias::kNone));
      CHECK(std::equal(want[b].weight.begin(), want[b].weight.end(), edges.weight.data()));
    }
  }
}

// Relations between two types: ids are of their types, repeated seeds are placed, and a relation of
// size 0 gives nothing.
template <typename Id>
void types_have_their_own_numbers() {
  const SampledGraph<Id> graph = make_graph<Id>(kNodes, 40);
  const LayerwiseGraph<Id> view{graph.indptr, graph.indices, {}};
  const LayerwiseTypes<Id> typed{{kNodes, kNodes},
                                 {{view, 0, 1, {5, 5}, {}, 0, nullptr},
                                  {view, 1, 0, {6, 0}, {}, 0, nullptr},
                                  {view, 1, 1, {0, 0}, {}, 0, nullptr}},
                                 2,
                                 Debias::kExact};
  const Ints seeds{30, 39, 30}, ptr{0, 3};
  const auto made = sampled<Id>(typed, {{1, seeds, ptr, {}, {}}}, 1, 1);
  CHECK((made[0].types[1].seed_position == Ints{0, 1, 0}));
  CHECK(made[0].types[0].num_nodes[0] == 0 && made[0].types[0].num_nodes[1] > 0);
  CHECK(made[0].relations[0].num_edges[0] > 0 && made[0].relations[0].num_edges[1] > 0);
  CHECK((made[0].relations[2].num_edges == Ints{0, 0}));
  CHECK((made[0].relations[1].num_edges == Ints{0, 0}));  // nothing of type 0 before layer 1
  for (std::int64_t e = 0; e < made[0].relations[0].count; ++e) {
    const RelationArrays& edges = made[0].relations[0];
    const auto at = static_cast<std::size_t>(e);
    CHECK(made[0].types[0].node[edges.row[at]] ==
          graph.indices[static_cast<std::size_t>(edges.edge[at])]);
    const auto target = static_cast<std::size_t>(made[0].types[1].node[edges.col[at]]);
    CHECK(edges.edge[at] >= graph.indptr[target] && edges.edge[at] < graph.indptr[target + 1]);
  }
  CHECK_THROWS(sampled<Id>(typed, {{2, seeds, ptr, {}, {}}}, 1, 1), InputError);
  const Ints outside{kNodes}, one{0, 1};
  CHECK_THROWS(sampled<Id>(typed, {{0, outside, one, {}, {}}}, 1, 1), InputError);
}

}  // namespace

int main() {
  for (const bool weighted : {false, true}) {
    for (const bool fastgcn : {false, true}) {
      for (const Debias debias : {Debias::kNone, Debias::kExact, Debias::kReference}) {
        one_relation_is_plain_sampling<std::uint32_t>(weighted, fastgcn, debias);
        one_relation_is_plain_sampling<std::int64_t>(weighted, fastgcn, debias);
      }
    }
  }
  types_have_their_own_numbers<std::uint32_t>();
  types_have_their_own_numbers<std::int64_t>();
}
