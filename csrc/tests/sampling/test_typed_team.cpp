#include <algorithm>
#include <vector>

#include "sampling/typed/check_relation.hpp"
#include "sampling/typed/typed_sample.hpp"
#include "tests/check.hpp"
#include "tests/sampled_graph.hpp"

using namespace foregather;

namespace {

constexpr std::int64_t kNodes = 5003;

template <typename Id>
bool alike(const TypedArrays<Id>& a, const TypedArrays<Id>& b) {
  for (std::size_t t = 0; t < a.types.size(); ++t) {
    const TypeArrays<Id>&one = a.types[t], &other = b.types[t];
    const auto nodes = one.num_nodes.back();
    if (one.num_nodes != other.num_nodes || one.seed_position != other.seed_position) return false;
    if (!std::equal(one.node.data(), one.node.data() + nodes, other.node.data())) return false;
    if (a.in_trees && !std::equal(one.tree.data(), one.tree.data() + nodes, other.tree.data())) {
      return false;
    }
  }
  for (std::size_t r = 0; r < a.relations.size(); ++r) {
    const RelationArrays &one = a.relations[r], &other = b.relations[r];
    const auto edges = one.count;
    if (one.num_edges != other.num_edges || edges != other.count) return false;
    if (!std::equal(one.row.data(), one.row.data() + edges, other.row.data())) return false;
    if (!std::equal(one.col.data(), one.col.data() + edges, other.col.data())) return false;
    if (!std::equal(one.edge.data(), one.edge.data() + edges, other.edge.data())) return false;
    if (one.weighted != other.weighted) return false;
    if (one.weighted &&
        !std::equal(one.weight.data(), one.weight.data() + edges, other.weight.data())) {
      return false;
    }
  }
  return true;
}

// Two types of the same size; relations within and between them, some with weights of 0 and times.
template <typename Id>
struct Graph {
  SampledGraph<Id> edges = make_graph<Id>(
      kNodes, 50, [](std::int64_t v, std::int64_t j) { return v * 31 + j * j * 17; });
  std::vector<std::int64_t> time;
  Buffer<AliasCell> cells;
  std::vector<std::uint32_t> positive;
  TypedGraph<Id> typed{{kNodes, kNodes}, {}};

  Graph(bool weighted, bool timed) {
    for (std::size_t v = 0; v + 1 < edges.indptr.size(); ++v) {
      for (std::int64_t j = 0; j < edges.indptr[v + 1] - edges.indptr[v]; ++j) {
        time.push_back(j / 3);
        edges.weights.push_back(j % 4 == 1 ? 0.0F : static_cast<float>(1 + j % 9));
      }
    }
    prepare_weights(edges.indptr, edges.weights, cells, positive, 1);
    const EdgeWeights weights{edges.weights, {cells.data(), edges.weights.size()}, positive};
    const std::vector<std::int64_t> fanouts{9, 7, 3}, few{4, 0, 2}, none{0, 0, 0};
    auto add = [&](std::size_t source, std::size_t target, const auto& numbers, bool weighs) {
      TypedRelation<Id> made{edges.view(), source, target, numbers, {}, {}};
      if (weighs) made.weights = weights;
      if (timed) made.time = time;
      typed.relations.push_back(made);
      check_relation(made, typed.num_nodes, 1);
    };
    add(0, 0, few, weighted);
    add(0, 1, fanouts, false);
    add(1, 0, fanouts, weighted);
    add(1, 1, none, weighted);
    add(1, 0, few, false);
  }
};

template <typename Id>
void teams_make_the_samples_of_one_thread(bool weighted, bool timed, TypedRule rule) {
  const Graph<Id> graph(weighted, timed);
  rule.layers = 3;
  rule.trees = rule.trees || timed;
  std::vector<std::int64_t> first, second, rows, times, ptr{0}, none{0};
  for (const std::int64_t size : {400, 2, 300}) {
    for (std::int64_t i = 0; i < size; ++i) {
      first.push_back((i * 7919 + size) % kNodes);
      rows.push_back(first.back() * 3 + i);
      times.push_back(i % 19);
    }
    ptr.push_back(static_cast<std::int64_t>(first.size()));
    second.push_back(size % kNodes);
    none.push_back(static_cast<std::int64_t>(second.size()));
  }
  const std::vector<std::int64_t> keys{5, 6, 7};
  const bool trees = rule.trees;
  std::vector<TypedSeeds> seeds{{0, first, ptr, {}, {}}, {1, second, none, {}, {}}};
  if (trees) {
    seeds[0].rows = rows;
    seeds[1].rows = keys;
  }
  if (timed) {
    seeds[0].times = times;
    seeds[1].times = keys;
  }
  std::vector<TypedArrays<Id>> want(3);
  for (const int threads : {1, 2, 6}) {
    std::vector<TypedWorker<Id>> workers(static_cast<std::size_t>(threads));
    std::vector<TypedArrays<Id>> made(3);
    std::vector<TypedArrays<Id>*> out;
    for (auto& arrays : threads == 1 ? want : made) out.push_back(&arrays);
    for (int round = 0; round < 2; ++round) {  // the second time with memory that is used again
      sample_typed<Id>(graph.typed, rule, seeds, 7, 1, 5, threads, workers, out);
    }
    std::int64_t edges = 0;
    for (const auto& arrays : want) {
      for (const RelationArrays& relation : arrays.relations) edges += relation.count;
    }
    CHECK(edges > 20000);  // so that layers are large enough for teams
    if (threads > 1) {
      for (std::size_t b = 0; b < 3; ++b) CHECK(alike(want[b], made[b]));
    }
  }
}

template <typename Id>
void all_rules() {
  for (const bool weighted : {false, true}) {
    for (const bool trees : {false, true}) {
      TypedRule rule;
      rule.trees = trees;
      teams_make_the_samples_of_one_thread<Id>(weighted, false, rule);
      rule.replace = true;
      teams_make_the_samples_of_one_thread<Id>(weighted, trees, rule);
    }
    TypedRule rule;
    teams_make_the_samples_of_one_thread<Id>(weighted, true, rule);
    rule.labor = true;
    rule.weight = LaborWeight::kExact;
    teams_make_the_samples_of_one_thread<Id>(false, weighted, rule);
  }
  TypedRule rule;
  rule.last = true;
  teams_make_the_samples_of_one_thread<Id>(false, true, rule);
}

}  // namespace

int main() {
  all_rules<std::uint32_t>();
  all_rules<std::int64_t>();
}
