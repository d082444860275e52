#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "sampling/nodewise/sample.hpp"
#include "sampling/typed/check_relation.hpp"
#include "sampling/typed/prefix.hpp"
#include "sampling/typed/typed_sample.hpp"
#include "tests/check.hpp"
#include "tests/sampled_graph.hpp"

using namespace foregather;

namespace {

void numbers_are_given_in_order() {
  TreeNumbers numbers;
  for (std::int64_t round = 0; round < 5; ++round) {
    std::map<std::pair<std::uint32_t, std::int64_t>, std::uint32_t> met;
    numbers.begin(97, 40);
    CHECK(numbers.known() == 0 && numbers.find(0, 0) == TreeNumbers::kNone);
    for (std::int64_t i = 0; i < 400 * (round + 1); ++i) {
      const auto tree = static_cast<std::uint32_t>(i * i % 40);
      const std::int64_t v = i * 31 % 97;
      numbers.make_room(numbers.known() + 1);
      numbers.prefetch(tree, v);
      const auto next = static_cast<std::uint32_t>(met.size());
      const std::uint32_t want = met.try_emplace({tree, v}, next).first->second;
      CHECK(numbers.insert(tree, v) == want);
    }
    CHECK(numbers.known() == static_cast<std::int64_t>(met.size()));
    for (const auto& [pair, local] : met) CHECK(numbers.find(pair.first, pair.second) == local);
    CHECK(numbers.bytes() > 0);
  }
  CHECK_THROWS(numbers.begin(std::int64_t{1} << 60, 100), InputError);
  CHECK_THROWS(numbers.make_room(std::int64_t{1} << 31), InputError);
}

void prefixes_end_where_bisection_says() {
  std::vector<std::int64_t> time;
  std::vector<PrefixRow> rows;
  for (std::uint32_t length = 0; length < 40; ++length) {
    rows.push_back({static_cast<std::int64_t>(time.size()), 0, length});
    for (std::uint32_t j = 0; j < length; ++j) time.push_back(j * j / 7);
  }
  time.push_back(-1);  // what comes after the last row is none of its business
  for (std::int64_t limit = -2; limit < 230; ++limit) {
    for (std::size_t first = 0; first < rows.size(); first += kPrefixRows) {
      std::vector<PrefixRow> block(
          rows.begin() + static_cast<std::ptrdiff_t>(first),
          rows.begin() + static_cast<std::ptrdiff_t>(std::min(first + kPrefixRows, rows.size())));
      for (std::size_t k = 0; k < block.size(); ++k) {  // limits differ inside a block
        block[k].limit = limit + static_cast<std::int64_t>(k);
      }
      const std::vector<PrefixRow> before = block;
      cut_rows(time.data(), block);
      for (std::size_t k = 0; k < block.size(); ++k) {
        const auto* row = time.data() + before[k].begin;
        const auto* end = std::upper_bound(row, row + before[k].length, before[k].limit);
        CHECK(block[k].length == static_cast<std::uint32_t>(end - row));
      }
    }
  }
}

template <typename Id>
std::vector<TypedArrays<Id>> sampled(const TypedGraph<Id>& graph, const TypedRule& rule,
                                     const std::vector<TypedSeeds>& seeds, std::size_t count,
                                     int threads) {
  std::vector<TypedArrays<Id>> made(count);
  std::vector<TypedArrays<Id>*> out;
  for (auto& one : made) out.push_back(&one);
  std::vector<TypedWorker<Id>> workers(static_cast<std::size_t>(threads));
  for (int again = 0; again < 2; ++again) {  // the second time with memory that is used again
    sample_typed<Id>(graph, rule, seeds, 7, 2, 30, threads, workers, out);
  }
  std::size_t held = 0;
  for (const auto& worker : workers) held += worker.bytes();
  CHECK(held > 0);
  return made;
}

// One relation is the plain sampler; two of the same edges draw apart.
template <typename Id>
void one_relation_is_plain_sampling(bool weighted, bool replace) {
  SampledGraph<Id> graph = make_graph<Id>(300, 70);
  for (std::size_t e = 0; e < graph.indices.size(); ++e) {
    graph.weights.push_back(static_cast<float>(1 + e % 5));
  }
  const std::vector<std::int64_t> fanouts{6, -1, 40};
  Buffer<AliasCell> cells;
  std::vector<std::uint32_t> positive;
  NeighborRule plain{fanouts, replace, true, {}};
  if (weighted) {
    prepare_weights(graph.indptr, graph.weights, cells, positive, 1);
    plain.weights = {graph.weights, {cells.data(), graph.weights.size()}, positive};
  }
  const TypedRelation<Id> relation{graph.view(), 0, 0, fanouts, plain.weights, {}};
  TypedGraph<Id> typed{{300}, {relation}};
  check_relation(typed.relations[0], typed.num_nodes, 2);
  const std::vector<std::int64_t> seeds{299, 5, 5, 17, 100, 0}, ptr{0, 4, 6};
  const std::vector<TypedSeeds> groups{{0, seeds, ptr, {}, {}}};
  const auto made = sampled<Id>(typed, {3, replace, false, false, false}, groups, 2, 2);
  for (std::size_t b = 0; b < 2; ++b) {
    SampleArrays<Id> want;
    NeighborWorker<Id> worker;
    const auto first = static_cast<std::size_t>(ptr[b]);
    const auto count = static_cast<std::size_t>(ptr[b + 1] - ptr[b]);
    worker.sample(graph.view(), plain, {seeds.data() + first, count}, 7, 2, 30 + b, want);
    const TypeArrays<Id>& nodes = made[b].types[0];
    const RelationArrays& edges = made[b].relations[0];
    CHECK(nodes.num_nodes == want.num_nodes && edges.num_edges == want.num_edges);
    CHECK(nodes.seed_position == want.seed_position);
    CHECK(
        std::equal(want.node.data(), want.node.data() + want.num_nodes.back(), nodes.node.data()));
    CHECK(std::equal(edges.row.data(), edges.row.data() + edges.count, want.row.data()));
    CHECK(std::equal(edges.col.data(), edges.col.data() + edges.count, want.col.data()));
    CHECK(std::equal(edges.edge.data(), edges.edge.data() + edges.count, want.edge.data()));
  }
  typed.relations.push_back(relation);
  const auto two = sampled<Id>(typed, {3, replace, false, false, false}, groups, 2, 1);
  const RelationArrays &one = two[0].relations[0], &other = two[0].relations[1];
  CHECK(!std::equal(one.edge.data(), one.edge.data() + one.num_edges[0], other.edge.data()));
}

// Trees see nothing later than their time, by every way of drawing; and a tree is the same alone.
template <typename Id>
void trees_see_their_time(bool weighted, bool last, bool replace, bool induced) {
  SampledGraph<Id> graph = make_graph<Id>(300, 70);
  std::vector<std::int64_t> time;
  for (std::size_t v = 0; v + 1 < graph.indptr.size(); ++v) {
    for (std::int64_t j = 0; j < graph.indptr[v + 1] - graph.indptr[v]; ++j) {
      time.push_back(j / 2);
      graph.weights.push_back(j % 4 == 1 ? 0.0F : static_cast<float>(1 + j));
    }
  }
  Buffer<AliasCell> cells;
  std::vector<std::uint32_t> positive;
  EdgeWeights weights;
  if (weighted) {
    prepare_weights(graph.indptr, graph.weights, cells, positive, 1);
    weights = {graph.weights, {cells.data(), graph.weights.size()}, positive};
  }
  TypedGraph<Id> typed{{300}, {{graph.view(), 0, 0, {6, 3}, weights, time}}};
  check_relation(typed.relations[0], typed.num_nodes, 2);
  std::vector<std::int64_t> seeds, rows, times;
  for (std::int64_t i = 0; i < 90; ++i) {
    seeds.push_back(i % 7 == 0 ? 299 : i * 37 % 300);
    rows.push_back(1000 - i);
    times.push_back(i - 4);
  }
  const TypedRule rule{2, replace, true, last, induced};
  const std::vector<std::int64_t> cuts{0, 50, 90};
  const auto made = sampled<Id>(typed, rule, {{0, seeds, cuts, rows, times}}, 2, 2);
  for (std::size_t b = 0; b < 2; ++b) {
    const RelationArrays& edges = made[b].relations[0];
    const TypeArrays<Id>& nodes = made[b].types[0];
    CHECK(made[b].in_trees && edges.count > 50);
    for (std::size_t e = 0; e < static_cast<std::size_t>(edges.count); ++e) {
      const std::uint32_t tree = nodes.tree[edges.col[e]];
      CHECK(nodes.tree[edges.row[e]] == tree);
      CHECK(time[static_cast<std::size_t>(edges.edge[e])] <=
            times[static_cast<std::size_t>(cuts[b]) + tree]);
    }
  }
  std::vector<std::int64_t> each;
  for (std::int64_t i = 0; i <= 90; ++i) each.push_back(i);
  const auto alone = sampled<Id>(typed, rule, {{0, seeds, each, rows, times}}, 90, 3);
  std::int64_t sum = 0;
  for (const auto& one : alone) sum += one.relations[0].count;
  CHECK(sum == made[0].relations[0].count + made[1].relations[0].count);
}

void what_does_not_fit_is_refused() {
  const SampledGraph<std::uint32_t> graph = make_graph<std::uint32_t>(30, 5);
  const std::vector<std::int64_t> few{29}, both{30, 29};
  using Relation = TypedRelation<std::uint32_t>;
  const Relation good{graph.view(), 0, 0, {2}, {}, {}};
  check_relation(good, std::vector<std::int64_t>{30}, 1);
  CHECK_THROWS(check_relation(good, few, 1), InputError);
  CHECK_THROWS(check_relation(Relation{graph.view(), 1, 0, {2}, {}, {}}, both, 1), InputError);
  CHECK_THROWS(check_relation(Relation{graph.view(), 0, 2, {2}, {}, {}}, both, 1), InputError);
  std::vector<std::int64_t> time(graph.indices.size(), 3);
  check_relation(Relation{graph.view(), 0, 0, {2}, {}, time}, std::vector<std::int64_t>{30}, 1);
  time.back() = 2;
  const Relation late{graph.view(), 0, 0, {2}, {}, time};
  CHECK_THROWS(check_relation(late, std::vector<std::int64_t>{30}, 1), InputError);
  CHECK_THROWS(check_relation(Relation{graph.view(), 0, 0, {2}, {}, few}, both, 1), InputError);
  const TypedGraph<std::uint32_t> typed{{30}, {good}};
  const std::vector<std::int64_t> seeds{30}, ptr{0, 1}, none;
  const TypedRule rule{1, false, true, false, false};
  const auto run = [&](const TypedSeeds& group) {
    sampled<std::uint32_t>(typed, rule, {group}, 1, 1);
  };
  CHECK_THROWS(run({0, seeds, ptr, ptr, {}}), InputError);
  CHECK_THROWS(run({0, few, ptr, {}, {}}), InputError);
  CHECK_THROWS(run({0, seeds, ptr, seeds, {}}), InputError);
  CHECK_THROWS(run({1, few, ptr, few, {}}), InputError);
  CHECK_THROWS(run({0, few, ptr, few, both}), InputError);
  run({0, few, ptr, few, few});
}

}  // namespace

int main() {
  numbers_are_given_in_order();
  prefixes_end_where_bisection_says();
  for (const bool first : {false, true}) {
    for (const bool second : {false, true}) {
      one_relation_is_plain_sampling<std::uint32_t>(first, second);
      one_relation_is_plain_sampling<std::int64_t>(first, second);
      trees_see_their_time<std::uint32_t>(first, false, second, false);
      trees_see_their_time<std::int64_t>(first, false, second, false);
    }
    trees_see_their_time<std::uint32_t>(false, true, false, first);
    trees_see_their_time<std::uint32_t>(first, false, false, true);
  }
  what_does_not_fit_is_refused();
}
