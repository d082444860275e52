#include <atomic>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "foregather/pool.hpp"

using namespace foregather;

int main() {
  CHECK(default_threads() >= 1);
  for (int threads : {1, 2, 3, 8}) {
    for (std::int64_t n : {0, 1, 2, 7, 1000}) {
      std::vector<int> seen(static_cast<std::size_t>(n), 0);
      parallel_for(n, threads, 1, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      for (int count : seen) CHECK(count == 1);
      parallel_blocks(n, threads, 3, [&](std::int64_t begin, std::int64_t end, int worker) {
        CHECK(worker >= 0 && worker < threads);
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      });
      for (int count : seen) CHECK(count == 2);
      std::atomic<std::int64_t> sum{0};
      parallel_tasks(n, threads, [&](std::int64_t item, int) { sum += item + 1; });
      CHECK(sum == n * (n + 1) / 2);
    }
    CHECK_THROWS(parallel_tasks(100, threads,
                                [](std::int64_t item, int) {
                                  if (item == 41) throw std::out_of_range("41");
                                }),
                 std::out_of_range);
  }
  return 0;
}
