#include <cstdint>
#include <vector>

#include "sampling/batch_arrays.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

template <typename Id>
void ids_are_copied_on_any_number_of_threads() {
  const std::size_t n = 70'001, m = 150'003;
  std::vector<Id> node(n);
  std::vector<std::uint32_t> row(m), col(m);
  std::vector<std::int64_t> edge(m);
  for (std::size_t i = 0; i < n; ++i) node[i] = static_cast<Id>(i * 3 + 1);
  for (std::size_t i = 0; i < m; ++i) {
    row[i] = 0xFFFFFFFFu - static_cast<std::uint32_t>(i);
    col[i] = static_cast<std::uint32_t>(i / 2);
    edge[i] = static_cast<std::int64_t>(i) << 20;
  }
  for (const int threads : {1, 2, 5}) {
    std::vector<std::int64_t> n_id(n, -1), ends(2 * m, -1), e_id(m, -1);
    widen_ids<Id>(node, row, col, edge, {n_id, ends, e_id}, threads);
    for (std::size_t i = 0; i < n; ++i) CHECK(n_id[i] == static_cast<std::int64_t>(node[i]));
    for (std::size_t i = 0; i < m; ++i) {
      CHECK(ends[i] == row[i] && ends[m + i] == col[i] && e_id[i] == edge[i]);
    }
    std::vector<std::int64_t> few(m);
    CHECK_THROWS(widen_ids<Id>(node, row, col, edge, {n_id, few, e_id}, threads), InputError);
  }
}

void labels_are_read_and_ids_checked() {
  const std::vector<std::int16_t> labels{-3, 7, 32767};
  std::vector<std::uint32_t> ids(200'000, 1);
  ids[5] = 0;
  ids.back() = 2;
  for (const int threads : {1, 3}) {
    std::vector<std::int64_t> out(ids.size());
    widen_labels<std::int16_t, std::uint32_t>(labels, ids, out, threads);
    CHECK(out[0] == 7 && out[5] == -3 && out.back() == 32767);
    for (const std::size_t at : {std::size_t{0}, ids.size() - 1}) {
      std::vector<std::uint32_t> wrong = ids;
      wrong[at] = 3;
      CHECK_THROWS((widen_labels<std::int16_t, std::uint32_t>(labels, wrong, out, threads)),
                   InputError);
    }
  }
  const std::vector<std::int64_t> below{-1};
  std::vector<std::int64_t> one(1);
  CHECK_THROWS((widen_labels<std::int16_t, std::int64_t>(labels, below, one, 1)), InputError);
  widen_labels<std::int16_t, std::int64_t>(labels, {}, {}, 2);
}

}  // namespace

int main() {
  ids_are_copied_on_any_number_of_threads<std::uint32_t>();
  ids_are_copied_on_any_number_of_threads<std::int64_t>();
  labels_are_read_and_ids_checked();
  return 0;
}
