#include "parallel/pool.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/platform.hpp"
#include "parallel/team.hpp"

namespace foregather {
namespace {

constexpr auto kIdle = std::chrono::seconds(10);             // then a helper ends
constexpr auto kHelperSpin = std::chrono::microseconds(20);  // looks for another job before sleep
constexpr auto kCallerSpin =
    std::chrono::microseconds(50);  // waits for the last tasks before sleep

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// True as soon as `ready` is, false after `span`.
template <typename Ready>
bool spin(std::chrono::microseconds span, const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + span;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

using Body = std::function<void(std::int64_t, int)>;

// One call: tasks 0 .. n - 1. Shared by the caller and its helpers, as a helper may still be on
// its way out when the caller has returned; `body` lives until the last task has ended.
class Job {
 public:
  Job(std::int64_t n, int workers, const Body& body) : seats(workers - 1), n_(n), body_(body) {}

  int seats;          // helpers still wanted; guarded by the pool's lock
  int next_seat = 1;  // the caller is worker 0; guarded by the pool's lock

  // Takes tasks until there are none left.
  void work(int worker) {
    std::int64_t ended = 0;
    // relaxed: tasks are independent, and ended_ orders their effects for the caller
    for (std::int64_t task; (task = next_.fetch_add(1, std::memory_order_relaxed)) < n_;) {
      ++ended;
      try {
        body_(task, worker);
      } catch (...) {
        ended += fail(std::current_exception());
        break;
      }
    }
    // release: what the tasks wrote; acquire: the last one here wakes the caller for all of them
    if (ended > 0 && ended_.fetch_add(ended, std::memory_order_acq_rel) + ended == n_) {
      std::lock_guard<std::mutex> hold(lock_);
      all_ended_.notify_one();
    }
  }

  // Waits until all tasks have ended, then rethrows the first failure.
  void finish() {
    const auto over = [this] { return ended_.load(std::memory_order_acquire) == n_; };
    if (!spin(kCallerSpin, over)) {
      std::unique_lock<std::mutex> hold(lock_);
      all_ended_.wait(hold, over);
    }
    // Moved: a helper on its way out must not be the one who destroys what the caller looks at.
    if (failure_) std::rethrow_exception(std::move(failure_));
  }

  bool exhausted() const { return next_.load(std::memory_order_relaxed) >= n_; }

 private:
  // Keeps the first failure and takes all tasks that nobody has begun; returns how many.
  std::int64_t fail(std::exception_ptr failure) {
    {
      std::lock_guard<std::mutex> hold(lock_);
      if (!failure_) failure_ = std::move(failure);
    }
    const std::int64_t begun = next_.exchange(n_, std::memory_order_relaxed);
    return std::max<std::int64_t>(n_ - begun, 0);
  }

  const std::int64_t n_;
  const Body& body_;
  std::atomic<std::int64_t> next_{0}, ended_{0};
  std::mutex lock_;
  std::condition_variable all_ended_;
  std::exception_ptr failure_;
};

class Pool {
 public:
  void run(std::int64_t n, int workers, const Body& body) {
    const auto job = std::make_shared<Job>(n, workers, body);
    post(job);
    job->work(0);
    close(job);
    job->finish();
  }

  int size() {
    std::lock_guard<std::mutex> hold(lock_);
    return helpers_;
  }

 private:
  void post(const std::shared_ptr<Job>& job) {
    std::lock_guard<std::mutex> hold(lock_);
    jobs_.push_back(job);
    wanted_ += job->seats;
    posted_.fetch_add(1, std::memory_order_relaxed);  // only a hint for who spins
    // A spinning helper takes the lock and looks for a job before it counts as anything else.
    const int spinning = spinning_.load(std::memory_order_relaxed);
    for (int i = std::min(job->seats - spinning, idle_); i > 0; --i) wake_.notify_one();
    int missing = wanted_ - idle_ - coming_ - spinning;
    while (missing > 0 && start()) --missing;
  }

  // No helper may begin on the job any more.
  void close(const std::shared_ptr<Job>& job) {
    std::lock_guard<std::mutex> hold(lock_);
    const auto at = std::find(jobs_.begin(), jobs_.end(), job);
    if (at == jobs_.end()) return;
    wanted_ -= job->seats;
    jobs_.erase(at);
  }

  // A new helper; false where the system refuses. The lock is held.
  bool start() {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the threads of the program
    bool started = true;
    try {
      std::thread([this] { help(); }).detach();
      ++helpers_;
      ++coming_;
    } catch (const std::exception&) {  // no thread, or no memory for one
      started = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }

  void help() {
    std::unique_lock<std::mutex> hold(lock_);
    --coming_;
    while (true) {
      int seat = 0;
      while (std::shared_ptr<Job> job = take(seat)) {
        hold.unlock();
        job->work(seat);
        job.reset();
        look_out(hold);
      }
      ++idle_;
      const auto woken = wake_.wait_for(hold, kIdle);
      --idle_;
      if (woken == std::cv_status::timeout && jobs_.empty()) break;
    }
    --helpers_;
  }

  // Spins for the next job, as one call is often soon followed by another; takes the lock. More
  // helpers than cores are there to wait for a disk: they sleep at once.
  void look_out(std::unique_lock<std::mutex>& hold) {
    const std::uint64_t seen = posted_.load(std::memory_order_relaxed);
    if (spinning_.fetch_add(1, std::memory_order_relaxed) + 1 < cores_) {
      spin(kHelperSpin, [&] { return posted_.load(std::memory_order_relaxed) != seen; });
    }
    hold.lock();
    spinning_.fetch_sub(1, std::memory_order_relaxed);
  }

  // A job that still has tasks, and a seat at it; jobs without are forgotten. The lock is held.
  std::shared_ptr<Job> take(int& seat) {
    while (!jobs_.empty()) {
      std::shared_ptr<Job> job = jobs_.front();
      const bool over = job->exhausted();
      if (!over) {
        seat = job->next_seat++;
        --job->seats;
        --wanted_;
      }
      if (over || job->seats == 0) {
        wanted_ -= job->seats;
        jobs_.erase(jobs_.begin());
      }
      if (!over) return job;
    }
    return nullptr;
  }

  std::mutex lock_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Job>> jobs_;  // with seats to take, the oldest first
  std::atomic<std::uint64_t> posted_{0};
  std::atomic<int> spinning_{0};
  const int cores_ = default_threads();
  int helpers_ = 0, idle_ = 0, coming_ = 0;  // coming: started, not yet here
  int wanted_ = 0;                           // seats of all jobs_
};

// The pool is never destroyed: helpers may outlive every static object. A child of fork has none of
// the helpers, and a lock may have been held, so it gets a new pool in the same place.
alignas(Pool) std::byte pool_memory[sizeof(Pool)];

Pool& pool() {
  static Pool* const made = [] {
    Pool* first = new (pool_memory) Pool;
    pthread_atfork(nullptr, nullptr, [] { new (pool_memory) Pool; });
    return first;
  }();
  return *made;
}

// ---- the team of another library ---------------------------------------------------------------
std::atomic<TeamEntry> team{nullptr};
thread_local bool on_team = false;

// Tasks by the team's threads; the end of its call is the end of all of them.
void run_on_team(TeamEntry entry, std::int64_t n, int threads, const Body& body) {
  struct Call {
    Job job;
    std::atomic<int> seats{0};
  } call{Job(n, threads, body)};
  const auto work = [](void* data) {
    auto& all = *static_cast<Call*>(data);
    all.job.work(all.seats.fetch_add(1, std::memory_order_relaxed));
  };
  entry(work, &call, static_cast<unsigned>(threads), 0);
  call.job.finish();
}

void run(std::int64_t n, int workers, int threads, const Body& body) {
  const TeamEntry entry = on_team ? team.load(std::memory_order_acquire) : nullptr;
  // All of the team's threads are asked, also where there are fewer tasks: it would end the others.
  if (entry != nullptr) return run_on_team(entry, n, threads, body);
  pool().run(n, workers, body);
}

}  // namespace

void set_team(TeamEntry entry) {
  static const int forked = pthread_atfork(nullptr, nullptr, [] { team.store(nullptr); });
  if (forked == 0) team.store(entry, std::memory_order_release);
}

OnTeam::OnTeam() : before_(on_team) { on_team = true; }

OnTeam::~OnTeam() { on_team = before_; }

int default_threads() { return platform::allowed_processors(); }

int pool_size() { return pool().size(); }

void parallel_for(std::int64_t n, int threads, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t, int)>& body) {
  if (n <= 0) return;
  if (threads <= 0) threads = default_threads();
  const std::int64_t most = (n + grain - 1) / std::max<std::int64_t>(grain, 1);
  const auto parts = std::min<std::int64_t>(threads, most);
  if (parts <= 1) return body(0, n, 0);
  run(parts, static_cast<int>(parts), threads, [&](std::int64_t part, int) {
    body(n * part / parts, n * (part + 1) / parts, static_cast<int>(part));
  });
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
  if (workers == 1) {
    for (std::int64_t item = 0; item < n; ++item) body(item, 0);
    return;
  }
  run(n, workers, threads, body);
}

}  // namespace foregather
