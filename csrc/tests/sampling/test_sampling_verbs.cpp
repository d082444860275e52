#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/exact_math.hpp"
#include "sampling/keys.hpp"
#include "sampling/layerwise/layerwise.hpp"
#include "sampling/numbering/numbering.hpp"
#include "sampling/sampling_verbs.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

using Ints = std::vector<std::int64_t>;

// A random graph in CSC form: rows ascend, some are empty, some edges are parallel.
template <typename Id>
struct Graph {
  Ints indptr{0};
  std::vector<Id> indices;

  Graph(std::int64_t nodes, std::uint64_t seed) {
    for (std::int64_t v = 0; v < nodes; ++v) {
      std::vector<Id> row(draw(seed, 2 * v) % 9);
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = static_cast<Id>(draw(seed + 1, 16 * v + i) % nodes);
      }
      std::sort(row.begin(), row.end());
      indices.insert(indices.end(), row.begin(), row.end());
      indptr.push_back(static_cast<std::int64_t>(indices.size()));
    }
  }
};

void test_math() {
  double worst = 0;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const double u = to_open_unit(draw(3, i));
    CHECK(u > 0 && u < 1);
    const long double log = std::log(static_cast<long double>(u));
    worst = std::max(worst, static_cast<double>(std::fabs((exact_log(u) - log) / log)));
  }
  for (double u : {to_open_unit(0), to_open_unit(~0ull), 0.5, std::sqrt(0.5), 1e-300, 1e300, 1.5}) {
    const long double log = std::log(static_cast<long double>(u));
    worst = std::max(worst, static_cast<double>(std::fabs((exact_log(u) - log) / log)));
  }
  CHECK(worst < 0x1.0p-51);
  CHECK(exact_log(1.0) == 0);
  worst = 0;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const double x = std::ldexp(to_open_unit(draw(4, i)), static_cast<int>(i % 60) - 53);
    const long double exact = -std::expm1(-static_cast<long double>(x));
    worst = std::max(worst, static_cast<double>(std::fabs((inclusion(x) - exact) / exact)));
  }
  CHECK(worst < 0x1.0p-50);
  CHECK(inclusion(0) == 0 && inclusion(std::numeric_limits<double>::infinity()) == 1);
}

template <typename Id>
void test_numbering() {
  Numbering<Id> numbering;
  for (int round = 0; round < 3; ++round) {
    std::map<Id, std::uint32_t> expected;
    const std::uint64_t count = round == 0 ? 5000 : 20;  // a large table becomes a small one
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto id = static_cast<Id>(draw(round, i) % (count / 2));
      const auto next = static_cast<std::uint32_t>(expected.size());
      CHECK(numbering.find(id) == (expected.contains(id) ? expected[id] : Numbering<Id>::kNone));
      CHECK(numbering.number(id) == expected.try_emplace(id, next).first->second);
    }
    CHECK(numbering.size() == expected.size());
    numbering.clear();
    CHECK(numbering.size() == 0 && numbering.find(0) == Numbering<Id>::kNone);
  }
}

template <typename Id>
void test_rows(const Graph<Id>& graph, const std::vector<Id>& rows, const Ints& batch_ptr) {
  Ints ptr(rows.size() + 1, -1);
  count_rows<Id>(graph.indptr, rows, ptr);
  std::vector<Id> columns(ptr.back());
  Ints edge(ptr.back());
  extract_rows<Id>(graph.indptr, graph.indices, rows, ptr, columns, edge, 3);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::int64_t i = ptr[r]; i < ptr[r + 1]; ++i) {
      CHECK(edge[i] == graph.indptr[rows[r]] + i - ptr[r] && columns[i] == graph.indices[edge[i]]);
    }
  }
  std::vector<double> weights(columns.size());
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = draw(9, i) % 4;
  std::vector<std::uint64_t> keys(batch_ptr.size() - 1);
  for (std::size_t b = 0; b < keys.size(); ++b) keys[b] = layer_key(batch_key(1, 2, b), 0);
  for (std::int64_t s : {0, 1, 3, 100}) {
    Ints first;
    for (int threads : {1, 2, 8}) {
      Ints picks_ptr(ptr.size());
      count_picks(ptr, weights, s, false, picks_ptr);
      Ints picks(picks_ptr.back());
      std::vector<double> tau(rows.size());
      sample_rows<Id>({rows, batch_ptr, ptr, columns}, weights, keys, s, false, picks_ptr, picks,
                      tau, threads);
      for (std::int64_t pick : picks) CHECK(weights[pick] > 0);
      CHECK((threads == 1 || picks == first));
      first = picks;
    }
  }
  Ints again_ptr(ptr.size());
  count_picks(ptr, weights, 5, true, again_ptr);
  Ints again(again_ptr.back());
  sample_rows<Id>({rows, batch_ptr, ptr, columns}, weights, keys, 5, true, again_ptr, again, {}, 2);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::int64_t i = again_ptr[r]; i < again_ptr[r + 1]; ++i) {
      CHECK(again[i] >= ptr[r] && again[i] < ptr[r + 1] && weights[again[i]] > 0);
    }
  }
}

template <typename Id>
void test_columns() {
  const std::vector<Id> columns{5, 1, 5, 2, 7, 7, 7};
  const Ints entry_ptr{0, 4, 4, 7};
  const std::vector<double> values{0.5, 1, 0.25, 0, 1e-300, 2e-300, 4e-300};
  std::vector<Id> distinct(7);
  Ints sums(7), counts(3);
  std::vector<double> unit(3);
  sum_columns<Id>(entry_ptr, columns, values, {distinct, sums, counts, unit}, 2);
  CHECK((counts == Ints{3, 0, 1}));
  CHECK(distinct[0] == 1 && distinct[1] == 2 && distinct[2] == 5 && distinct[4] == 7);
  CHECK(sums[0] * unit[0] == 1 && sums[1] == 0 && sums[2] * unit[0] == 0.75);
  CHECK(std::fabs(sums[4] * unit[2] / 7e-300 - 1) < 1e-12);
  std::vector<double> bad = values;
  bad[3] = -1;
  CHECK_THROWS(sum_columns<Id>(entry_ptr, columns, bad, {distinct, sums, counts, unit}, 2),
               InputError);
  const Ints wrong{0, 4, 3, 7};  // descends: must not be followed
  CHECK_THROWS(sum_columns<Id>(wrong, columns, values, {distinct, sums, counts, unit}, 2),
               InputError);
  Ints match(7);
  const std::vector<Id> selected{5, 1, 7};
  match_columns<Id>(entry_ptr, columns, Ints{0, 1, 2, 3}, selected, match, 2);
  CHECK((match == Ints{0, -1, 0, -1, 2, 2, 2}));
  std::vector<std::uint32_t> row(7);
  std::vector<Id> fresh(7);
  compact<Id>(Ints{0, 1, 1, 2}, std::vector<Id>{1, 7}, entry_ptr, columns, row, fresh, counts, 2);
  CHECK((row == std::vector<std::uint32_t>{1, 0, 1, 2, 0, 0, 0}));
  CHECK((counts == Ints{2, 0, 0}) && fresh[0] == 5 && fresh[1] == 2);
}

// The fast search must find what sorting all keys finds, whatever the weights.
template <typename Id>
void test_choice() {
  for (double spread : {0.0, 30.0, 600.0}) {
    const std::int64_t n = 3000;
    std::vector<double> weights(n);
    std::vector<std::pair<double, std::int64_t>> all;
    const std::uint64_t key = layer_key(batch_key(7, 0, 0), 1);
    for (std::int64_t v = 0; v < n; ++v) {
      weights[v] =
          v % 10 == 0 ? 0 : std::ldexp(1.0, static_cast<int>(spread * to_unit(draw(5, v))));
      if (weights[v] > 0) {
        all.emplace_back(exponential(draw(vertex_key(key, v), 0)) / weights[v], v);
      }
    }
    std::sort(all.begin(), all.end());
    std::vector<Id> ids(static_cast<std::size_t>(n));
    std::iota(ids.begin(), ids.end(), Id{0});
    for (std::int64_t s : {1, 20, 500, 2699, 2700, 2800}) {
      Ints counted(2);
      count_picks(Ints{0, n}, weights, s, false, counted);
      Ints picks(counted[1]);
      std::vector<double> tau(1);
      sample_columns<Id>(Ints{0, n}, ids, weights, std::vector{key}, s, counted, picks, tau, 1);
      std::set<std::int64_t> expected;
      for (std::int64_t i = 0; i < std::min<std::int64_t>(s, all.size()); ++i) {
        expected.insert(all[i].second);
      }
      CHECK(Ints(expected.begin(), expected.end()) == picks);
      CHECK(tau[0] == (s < std::int64_t(all.size()) ? all[s].first
                                                    : std::numeric_limits<double>::infinity()));
    }
  }
}

template <typename Id>
void test_layerwise(const Graph<Id>& graph) {
  const Ints sizes{5, 3};
  const std::vector<Id> seeds{1, 2, 9, 4};
  const Ints seed_ptr{0, 2, 2, 4};
  Ints sums(graph.indptr.size() - 1);
  const double unit = square_columns<Id>(graph.indptr, graph.indices, {}, sums, 3);
  std::vector<double> global;
  for (std::int64_t sum : sums) global.push_back(sum * unit);
  const Arrivals arrivals(global);
  LayerwiseTables<Id> pool;
  for (bool fastgcn : {false, true}) {
    const LayerwiseRule rule{sizes, Debias::kExact,
                             fastgcn ? std::span<const double>(global) : std::span<const double>{},
                             1.0, &arrivals};
    const auto one = sample_layerwise<Id>({graph.indptr, graph.indices, {}}, rule,
                                          {seeds, seed_ptr, 1, 2, 3}, pool, 1);
    const auto many = sample_layerwise<Id>({graph.indptr, graph.indices, {}}, rule,
                                           {seeds, seed_ptr, 1, 2, 3}, pool, 8);
    for (std::size_t b = 0; b < 3; ++b) {
      CHECK(one[b].node == many[b].node && one[b].row == many[b].row && one[b].col == many[b].col);
      CHECK(one[b].edge == many[b].edge && one[b].weight == many[b].weight);
      for (std::size_t e = 0; e < one[b].edge.size(); ++e) {
        CHECK(one[b].node[one[b].row[e]] == graph.indices[one[b].edge[e]]);
        CHECK(one[b].weight[e] > 0);
      }
    }
    CHECK(one[1].node.empty() && one[1].num_nodes.size() == 3);
    const std::vector<Id> outside{1, static_cast<Id>(graph.indptr.size() - 1), 9, 4},
        twice{1, 1, 9, 4};
    for (const auto& bad : {outside, twice}) {
      CHECK_THROWS(sample_layerwise<Id>({graph.indptr, graph.indices, {}}, rule,
                                        {bad, seed_ptr, 1, 2, 3}, pool, 2),
                   InputError);
    }
    // A source that is not a vertex is refused, and leaves no trace in the tables.
    std::vector<Id> broken(graph.indices.begin(), graph.indices.end());
    for (std::size_t e = graph.indptr[2] + 1; e < broken.size(); e += 2) {
      broken[e] = static_cast<Id>(graph.indptr.size() - 1);
    }
    if (!fastgcn) {
      CHECK_THROWS(sample_layerwise<Id>({graph.indptr, broken, {}}, rule,
                                        {seeds, seed_ptr, 1, 2, 3}, pool, 1),
                   InputError);
    }
    const auto again = sample_layerwise<Id>({graph.indptr, graph.indices, {}}, rule,
                                            {seeds, seed_ptr, 1, 2, 3}, pool, 1);
    CHECK(again[2].edge == one[2].edge && again[2].weight == one[2].weight);
  }
}

template <typename Id>
void test_all() {
  test_numbering<Id>();
  const Graph<Id> graph(300, 11);
  std::vector<Id> rows;
  for (std::uint64_t i = 0; i < 400; ++i) rows.push_back(static_cast<Id>(draw(12, i) % 300));
  test_rows<Id>(graph, rows, {0, 0, 130, 399, 400, 400});
  test_rows<Id>(graph, {}, {0, 0});
  Ints ptr(2);
  CHECK_THROWS(count_rows<Id>(graph.indptr, std::vector<Id>{300}, ptr), InputError);
  CHECK_THROWS(count_rows<Id>(graph.indptr, std::vector<Id>{static_cast<Id>(-1)}, ptr), InputError);
  test_columns<Id>();
  test_choice<Id>();
  test_layerwise<Id>(graph);
}

}  // namespace

int main() {
  test_math();
  test_all<std::uint32_t>();
  test_all<std::int64_t>();
  return 0;
}
