// PoolCases: what the pool must do in a process and in a forked child of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/pool.hpp"
#include "tests/check.hpp"

namespace foregather {

// All tasks wait for each other, so as many threads as asked for must run them.
inline void gives_as_many_threads_as_asked_for() {
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

inline void calls_from_many_threads_and_inside_bodies() {
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

}  // namespace foregather
