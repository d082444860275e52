#include <vector>

#include "graph/check.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

template <typename Id>
void test_ids() {
  std::vector<Id> ids(300000, 4);
  for (int threads : {1, 2, 7}) CHECK(check_ids<Id>(ids, 5, threads) == -1);
  ids[299999] = 5;
  for (int threads : {1, 2, 7}) CHECK(check_ids<Id>(ids, 5, threads) == 299999);
  ids[131072] = static_cast<Id>(-1);
  for (int threads : {1, 2, 7}) CHECK(check_ids<Id>(ids, 5, threads) == 131072);
  CHECK(check_ids<Id>({}, 0, 1) == -1);
  std::vector<std::int64_t> counts(5, 1);
  CHECK_THROWS(count_ids<Id>(ids, counts), InputError);
  count_ids<Id>(std::vector<Id>{0, 4, 4}, counts);
  CHECK((counts == std::vector<std::int64_t>{2, 1, 1, 1, 3}));
}

template <typename Id>
void test_rows() {
  const std::vector<std::int64_t> indptr{0, 3, 3, 5, 6};
  const std::vector<Id> fine{0, 2, 2, 1, 3, 0};
  CHECK(check_rows<Id>(indptr, fine, 0) == -1);
  const std::vector<Id> wrong{0, 2, 1, 1, 3, 0};
  CHECK(check_rows<Id>(indptr, wrong, 0) == 2);
  const std::vector<Id> later{0, 2, 2, 3, 1, 0};
  CHECK(check_rows<Id>(indptr, later, 0) == 4);
  CHECK(check_rows<Id>(indptr, std::span(later).subspan(3), 3) == 1);
  // boundaries that end too early are an offence of the rows, never a read beyond them
  CHECK(check_rows<Id>(std::span(indptr).first(2), later, 0) == 4);
  CHECK_THROWS(check_rows<Id>({}, later, 0), InputError);
}

template <typename Id>
void test_edges() {
  // rows: 0 <- 1 1, 1 <- 0 1, 2 <- (none), 3 <- 2
  const std::vector<std::int64_t> indptr{0, 2, 4, 4, 5}, labels{7, 7, 1, -1}, none;
  const std::vector<Id> indices{1, 1, 0, 1, 2};
  EdgeCounts sum = count_edges<Id>(indptr, 0, indices, 0, 0, labels, 1);
  CHECK(sum.self_loops == 1 && sum.duplicates == 1 && sum.labelled == 4 && sum.same_label == 4);
  CHECK(sum.skew != 0);
  // the same in two chunks that overlap by one edge
  const EdgeCounts head = count_edges<Id>(indptr, 0, std::span(indices).first(1), 0, 0, labels, 2);
  const EdgeCounts tail = count_edges<Id>(indptr, 0, indices, 0, 1, labels, 2);
  CHECK(head.duplicates + tail.duplicates == 1 && head.skew + tail.skew == sum.skew);
  // without the last edge every edge has its reverse
  sum = count_edges<Id>(indptr, 0, std::span(indices).first(4), 0, 0, none, 1);
  CHECK(sum.skew == 0 && sum.labelled == 0);
  CHECK_THROWS(count_edges<Id>(indptr, 1, indices, 0, 0, labels, 1), InputError);
  CHECK_THROWS(count_edges<Id>(indptr, 0, std::vector<Id>{9}, 0, 0, labels, 1), InputError);
}

}  // namespace

int main() {
  CHECK(check_indptr(std::vector<std::int64_t>{0, 0, 3, 3}, 0) == -1);
  CHECK(check_indptr(std::vector<std::int64_t>{0, 4, 3, 1}, 0) == 2);
  CHECK(check_indptr(std::vector<std::int64_t>{5}, 6) == 0);
  CHECK(check_indptr({}, 6) == -1);
  test_ids<std::uint32_t>();
  test_ids<std::int64_t>();
  test_rows<std::uint32_t>();
  test_rows<std::int64_t>();
  test_edges<std::uint32_t>();
  test_edges<std::int64_t>();
  return 0;
}
