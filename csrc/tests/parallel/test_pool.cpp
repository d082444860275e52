#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "parallel/pool.hpp"
#include "tests/check.hpp"
#include "tests/parallel/pool_cases.hpp"

using namespace foregather;

namespace {

void covers_every_item_once() {
  for (int threads : {1, 2, 3, 8}) {
    for (std::int64_t n : {0, 1, 2, 7, 1000}) {
      std::vector<int> seen(static_cast<std::size_t>(n), 0);
      parallel_for(n, threads, 1, [&](std::int64_t begin, std::int64_t end, int part) {
        CHECK(part >= 0 && part < threads);
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
  }
}

// Part boundaries are a promise: kernels number their parts by them.
void parts_do_not_depend_on_who_works() {
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::vector<std::int64_t> first(4, -1), last(4, -1);
    parallel_for(1001, 4, 100, [&](std::int64_t begin, std::int64_t end, int part) {
      first[static_cast<std::size_t>(part)] = begin;
      last[static_cast<std::size_t>(part)] = end;
    });
    CHECK((first == std::vector<std::int64_t>{0, 250, 500, 750}));
    CHECK((last == std::vector<std::int64_t>{250, 500, 750, 1001}));
  }
}

// Unsynchronised scratch by worker number: ThreadSanitizer sees it if two share a number.
void worker_numbers_are_not_shared() {
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<std::int64_t> scratch(4, 0);
    parallel_tasks(64, 4,
                   [&](std::int64_t, int worker) { ++scratch[static_cast<std::size_t>(worker)]; });
    CHECK(scratch[0] + scratch[1] + scratch[2] + scratch[3] == 64);
  }
}

// Helpers that are held up elsewhere do not hold up a call.
void late_helpers_are_not_waited_for() {
  std::atomic<bool> release{false};
  std::atomic<int> busy{0};
  std::thread other([&] {
    parallel_tasks(2, 2, [&](std::int64_t, int) {
      ++busy;
      while (!release) std::this_thread::yield();
    });
  });
  while (busy < 2) std::this_thread::yield();
  std::atomic<int> ran{0};
  parallel_tasks(100, 2, [&](std::int64_t, int) { ++ran; });
  CHECK(ran == 100);
  release = true;
  other.join();
}

void failures_reach_the_caller() {
  for (int threads : {1, 2, 3, 8}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      CHECK_THROWS(parallel_tasks(100, threads,
                                  [](std::int64_t item, int) {
                                    if (item % 10 == 1) throw std::out_of_range("1");
                                  }),
                   std::out_of_range);
      CHECK_THROWS(parallel_for(8, threads, 1,
                                [](std::int64_t, std::int64_t, int) {
                                  throw std::length_error("all parts fail");
                                }),
                   std::length_error);
    }
  }
  // Nothing is begun after the failure that ends the call, and nothing runs on after it.
  std::atomic<int> running{0};
  std::atomic<std::int64_t> begun{0};
  CHECK_THROWS(parallel_tasks(1'000'000, 2,
                              [&](std::int64_t, int) {
                                ++running;
                                ++begun;
                                --running;
                                throw std::out_of_range("first");
                              }),
               std::out_of_range);
  CHECK(running == 0 && begun <= 2);
}

}  // namespace

int main() {
  CHECK(default_threads() >= 1);
  covers_every_item_once();
  parts_do_not_depend_on_who_works();
  worker_numbers_are_not_shared();
  gives_as_many_threads_as_asked_for();
  late_helpers_are_not_waited_for();
  failures_reach_the_caller();
  calls_from_many_threads_and_inside_bodies();
  return 0;
}
