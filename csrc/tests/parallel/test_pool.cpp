#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "parallel/pool.hpp"
#include "tests/check.hpp"

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

// All tasks wait for each other, so as many threads as asked for must run them.
void gives_as_many_threads_as_asked_for() {
  std::mutex lock;
  std::condition_variable all;
  int here = 0;
  parallel_tasks(12, 12, [&](std::int64_t, int) {
    std::unique_lock<std::mutex> hold(lock);
    if (++here == 12) all.notify_all();
    all.wait(hold, [&] { return here == 12; });
  });
  CHECK(pool_size() >= 11);
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

void calls_from_many_threads_and_inside_bodies() {
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 30; ++repeat) {
        parallel_tasks(6, 3, [&](std::int64_t, int) {
          parallel_for(100, 2, 1, [&](std::int64_t begin, std::int64_t end, int) {
            parallel_blocks(end - begin, 2, 7,
                            [&](std::int64_t from, std::int64_t to, int) { sum += to - from; });
          });
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(sum == 4 * 30 * 6 * 100);
}

// ThreadSanitizer does not let a child of a threaded process start threads.
void a_forked_child_has_its_own_helpers() {
#ifndef __SANITIZE_THREAD__
  gives_as_many_threads_as_asked_for();
  const pid_t child = fork();
  if (child == 0) {
    if (pool_size() != 0) _exit(1);
    gives_as_many_threads_as_asked_for();
    calls_from_many_threads_and_inside_bodies();
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  gives_as_many_threads_as_asked_for();
#endif
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
  a_forked_child_has_its_own_helpers();
  return 0;
}
