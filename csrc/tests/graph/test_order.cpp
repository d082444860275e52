#include <algorithm>
#include <numeric>
#include <vector>

#include "graph/order/breadth.hpp"
#include "graph/order/communities.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

// Cliques of `size` nodes, node v in clique v % cliques.
template <typename Id>
void cliques(std::int64_t count, std::int64_t size, std::vector<std::int64_t>& indptr,
             std::vector<Id>& indices) {
  indptr.assign(1, 0);
  for (std::int64_t v = 0; v < count * size; ++v) {
    for (std::int64_t k = 0; k < size; ++k) {
      const std::int64_t other = v % count + k * count;
      if (other != v) indices.push_back(static_cast<Id>(other));
    }
    indptr.push_back(static_cast<std::int64_t>(indices.size()));
  }
}

template <typename Id>
void finds_cliques() {
  std::vector<std::int64_t> indptr;
  std::vector<Id> indices;
  cliques<Id>(300, 10, indptr, indices);
  std::vector<std::uint32_t> first;
  for (int threads : {1, 2, 7}) {
    Communities found(3000);
    found.begin_level(10);
    for (int pass = 0; pass < 8; ++pass) {
      // in pieces: what is fed at once must not matter
      for (std::int64_t row = 0; row < 3000; row += 2 * found.block()) {
        const std::int64_t last = std::min<std::int64_t>(3000, row + 2 * found.block());
        found.feed<Id>(
            row, std::span(indptr).subspan(row, last - row + 1),
            std::span<const Id>(indices).subspan(indptr[row], indptr[last] - indptr[row]), threads);
      }
    }
    const auto labels = found.labels();
    std::int64_t together = 0;
    for (std::int64_t v = 300; v < 3000; ++v) together += labels[v] == labels[v - 300];
    CHECK(together > 2000);
    for (std::int64_t v = 0; v < 3000; ++v) CHECK(labels[v] % 300 == v % 300);
    if (first.empty()) first.assign(labels.begin(), labels.end());
    CHECK(std::equal(first.begin(), first.end(), labels.begin()));
  }
  Communities wrong(3000);
  wrong.begin_level(4);
  CHECK_THROWS(wrong.begin_level(0), InputError);
  CHECK_THROWS(
      wrong.feed<Id>(1, std::span(indptr).first(2), std::span<const Id>(indices).first(9), 1),
      InputError);
  const std::vector<Id> bad{static_cast<Id>(3000)};
  const std::vector<std::int64_t> one{0, 1};
  CHECK_THROWS(wrong.feed<Id>(0, one, bad, 1), InputError);
  CHECK_THROWS(Communities(-1), InputError);
}

template <typename Id>
void searches() {
  std::vector<std::int64_t> indptr;
  std::vector<Id> indices;
  cliques<Id>(5, 4, indptr, indices);
  const auto order = breadth_first<Id>(indptr, indices, Breadth::rows, {}, {});
  std::vector<std::uint32_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::uint32_t> all(20);
  std::iota(all.begin(), all.end(), 0u);
  CHECK(sorted == all);
  for (std::size_t k = 0; k < 20; ++k) CHECK(order[k] % 5 == k / 4);  // clique after clique
  const std::vector<std::uint32_t> parts(20, 0), roots{7};
  CHECK((breadth_first<Id>(indptr, indices, Breadth::rows, roots, parts)[0] == 7));
  CHECK((breadth_first<Id>(indptr, indices, Breadth::degrees, roots, {})[19] == 7));
  CHECK_THROWS(breadth_first<Id>(std::span(indptr).first(3), indices, Breadth::rows, {}, {}),
               InputError);
  std::vector<std::uint64_t> score(20, 0);
  add_visits<Id>(indptr, indices, 1, score);
  for (const std::uint64_t one : score) CHECK(one == 3 * ((1u << 20) / 3));
  std::vector<std::uint64_t> few(3, 0);
  CHECK_THROWS(add_visits<Id>(indptr, indices, 1, few), InputError);
}

}  // namespace

int main() {
  finds_cliques<std::uint32_t>();
  finds_cliques<std::int64_t>();
  searches<std::uint32_t>();
  searches<std::int64_t>();
  return 0;
}
