#include "foregather/pool.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace foregather {
namespace {

// Runs job(worker) on `workers` threads, the caller's included; rethrows the first exception.
void run_workers(int workers, const std::function<void(int)>& job) {
  std::exception_ptr failure;
  std::mutex failure_lock;
  auto guarded = [&](int worker) {
    try {
      job(worker);
    } catch (...) {
      std::lock_guard<std::mutex> hold(failure_lock);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(workers - 1));
    for (int worker = 1; worker < workers; ++worker) threads.emplace_back(guarded, worker);
    guarded(0);
  }  // jthreads join here
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

int default_threads() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1u, std::thread::hardware_concurrency());
}

void parallel_for(std::int64_t n, int threads, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t, int)>& body) {
  if (n <= 0) return;
  if (threads <= 0) threads = default_threads();
  const std::int64_t most = (n + grain - 1) / std::max<std::int64_t>(grain, 1);
  const int parts = static_cast<int>(std::min<std::int64_t>(threads, most));
  if (parts <= 1) return body(0, n, 0);
  run_workers(parts, [&](int part) { body(n * part / parts, n * (part + 1) / parts, part); });
}

void parallel_blocks(std::int64_t n, int threads, std::int64_t block,
                     const std::function<void(std::int64_t, std::int64_t, int)>& body) {
  if (n <= 0) return;
  if (threads <= 0) threads = default_threads();
  block = std::max<std::int64_t>(block, 1);
  if (threads == 1 || n <= block) return body(0, n, 0);
  parallel_tasks((n + block - 1) / block, threads, [&](std::int64_t item, int worker) {
    body(item * block, std::min(n, (item + 1) * block), worker);
  });
}

void parallel_tasks(std::int64_t n, int threads,
                    const std::function<void(std::int64_t, int)>& body) {
  if (n <= 0) return;
  if (threads <= 0) threads = default_threads();
  const int workers = static_cast<int>(std::min<std::int64_t>(threads, n));
  std::atomic<std::int64_t> next{0};
  run_workers(workers, [&](int worker) {
    // relaxed: items are independent, joining the threads orders their effects
    for (std::int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
      body(item, worker);
    }
  });
}

}  // namespace foregather
