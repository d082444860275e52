#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "graph/csc.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

template <typename Id>
struct Edges {
  std::vector<Id> source, target;
  std::int64_t num_nodes;
};

template <typename Id>
struct Csc {
  std::vector<std::int64_t> indptr, order;
  std::vector<Id> indices;
  bool operator==(const Csc&) const = default;
};

// The obvious way: a stable sort of positions.
template <typename Id>
Csc<Id> oracle(const Edges<Id>& edges, bool sort_rows) {
  Csc<Id> csc;
  csc.order.resize(edges.source.size());
  std::iota(csc.order.begin(), csc.order.end(), 0);
  std::stable_sort(csc.order.begin(), csc.order.end(), [&](std::int64_t a, std::int64_t b) {
    if (edges.target[a] != edges.target[b]) return edges.target[a] < edges.target[b];
    return sort_rows && edges.source[a] < edges.source[b];
  });
  csc.indptr.assign(edges.num_nodes + 1, 0);
  for (std::int64_t e : csc.order) {
    csc.indices.push_back(edges.source[e]);
    ++csc.indptr[edges.target[e] + 1];
  }
  std::partial_sum(csc.indptr.begin(), csc.indptr.end(), csc.indptr.begin());
  return csc;
}

template <typename Id>
Csc<Id> build(const Edges<Id>& edges, int item_bytes, int threads, bool sort_rows, bool order) {
  Csc<Id> csc{std::vector<std::int64_t>(edges.num_nodes + 1, -7),
              std::vector<std::int64_t>(order ? edges.source.size() : 0, -7),
              std::vector<Id>(edges.source.size(), 7)};
  detail::build_csc_as<Id>(item_bytes, edges.source, edges.target, edges.num_nodes, csc.indptr,
                           csc.indices, csc.order, threads, sort_rows);
  return csc;
}

enum Skew { kUniform, kFewRows, kStar };

template <typename Id>
Edges<Id> random_edges(std::int64_t nodes, std::int64_t count, Skew skew, std::uint64_t seed) {
  Edges<Id> edges{{}, {}, nodes};
  for (std::int64_t e = 0; e < count; ++e) {
    edges.source.push_back(static_cast<Id>(draw(seed, 2 * e) % nodes));
    const std::uint64_t any = draw(seed, 2 * e + 1);
    std::uint64_t target = any % nodes;
    // nearly all edges in a few neighbouring rows, or in one: the large-bucket paths
    if (skew == kFewRows && e % 8 != 0)
      target = nodes / 2 + any % std::min<std::uint64_t>(5, nodes - nodes / 2);
    if (skew == kStar && e % 8 != 0) target = nodes - 1;
    edges.target.push_back(static_cast<Id>(target));
  }
  return edges;
}

template <typename Id>
void compare(const Edges<Id>& edges) {
  for (bool sort_rows : {false, true}) {
    const Csc<Id> expected = oracle(edges, sort_rows);
    for (int bytes : {0, 4, 8, 12, 16}) {
      for (int threads : bytes == 0 ? std::vector{1, 3} : std::vector{3}) {
        CHECK(build(edges, bytes, threads, sort_rows, true) == expected);
        const Csc<Id> plain = build(edges, bytes, threads, sort_rows, false);
        CHECK(plain.indptr == expected.indptr && plain.indices == expected.indices);
      }
    }
  }
}

template <typename Id>
void test_shapes() {
  compare(Edges<Id>{{}, {}, 0});
  compare(Edges<Id>{{}, {}, 5});
  compare(Edges<Id>{{0, 0, 0}, {0, 0, 0}, 1});
  for (std::int64_t nodes : {1, 2, 3, 64, 1000, 70000}) {
    compare(random_edges<Id>(nodes, 1 + nodes / 2, kUniform, 1));
    compare(random_edges<Id>(nodes, 3000, kUniform, 2));
  }
  // 13 buckets whose limit is 131072 edges, which the skewed ones exceed
  for (Skew skew : {kUniform, kFewRows, kStar}) {
    compare(random_edges<Id>(200000, 170000, skew, 3));
  }
}

template <typename Id>
std::string complaint(const Edges<Id>& edges, int threads) {
  try {
    build(edges, 0, threads, true, false);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

template <typename Id>
void test_range() {
  auto edges = random_edges<Id>(5000, 200000, kUniform, 5);
  edges.source[150017] = 5000;
  edges.target[199999] = 6000;
  for (int threads : {1, 2, 8}) {
    CHECK(complaint(edges, threads) ==
          "edge 150017 has source 5000, but the graph has 5000 nodes (ids are 0 to N-1)");
  }
  edges.target[17] = static_cast<Id>(-1);
  const std::string value = std::to_string(edges.target[17]);
  CHECK(complaint(edges, 2) ==
        "edge 17 has target " + value + ", but the graph has 5000 nodes (ids are 0 to N-1)");
  CHECK(!complaint(Edges<Id>{{0}, {0}, 0}, 1).empty());
  CHECK(!complaint(Edges<Id>{{0}, {0, 0}, 1}, 1).empty());
}

template <typename Id>
void test_dedup() {
  std::vector<std::int64_t> indptr{0, 0, 4, 5, 9};
  std::vector<Id> indices{1, 1, 2, 2, 2, 0, 3, 3, 3};
  std::vector<std::uint8_t> keep(9, 9);
  CHECK(dedup_rows<Id>(indptr, indices, keep) == 4);
  CHECK((keep == std::vector<std::uint8_t>{1, 0, 1, 0, 1, 1, 1, 0, 0}));
  CHECK(compact_rows<Id>(indptr, indices, keep, indptr) == 5);
  CHECK((indptr == std::vector<std::int64_t>{0, 0, 2, 3, 5}));
  indices.resize(5);
  CHECK((indices == std::vector<Id>{1, 2, 2, 0, 3}));
  CHECK_THROWS(dedup_rows<Id>(indptr, indices, keep), InputError);
  keep.resize(5);
  indptr[1] = 6;  // beyond its successor: must not be followed
  CHECK_THROWS(dedup_rows<Id>(indptr, indices, keep), InputError);
}

}  // namespace

int main() {
  test_shapes<std::uint32_t>();
  test_shapes<std::int64_t>();
  test_range<std::uint32_t>();
  test_range<std::int64_t>();
  test_dedup<std::uint32_t>();
  test_dedup<std::int64_t>();
  return 0;
}
