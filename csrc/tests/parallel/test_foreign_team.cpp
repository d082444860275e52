#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "parallel/pool.hpp"
#include "parallel/team.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

std::atomic<int> calls{0}, asked{0};

// What GOMP_parallel does: the caller and others run the function, and all have ended on return.
void fork_and_join(void (*function)(void*), void* data, unsigned threads, unsigned) {
  ++calls;
  asked = static_cast<int>(threads);
  std::vector<std::thread> others;
  for (unsigned k = 1; k < threads; ++k) others.emplace_back(function, data);
  function(data);
  for (std::thread& other : others) other.join();
}

// All items once, by workers below the number of threads.
void check_tasks(std::int64_t items, int threads) {
  std::vector<std::atomic<int>> seen(static_cast<std::size_t>(items));
  parallel_tasks(items, threads, [&](std::int64_t item, int worker) {
    CHECK(worker >= 0 && worker < threads);
    ++seen[static_cast<std::size_t>(item)];
  });
  for (const auto& count : seen) CHECK(count == 1);
}

}  // namespace

int main() {
  {
    OnTeam none;  // nobody has named one
    check_tasks(20, 3);
  }
  set_team(fork_and_join);
  check_tasks(20, 3);
  CHECK(calls == 0);  // this thread did not ask for it
  {
    OnTeam team;
    check_tasks(20, 3);
    CHECK(calls == 1 && asked == 3);
    check_tasks(2, 3);  // fewer tasks than threads: all are asked all the same
    CHECK(calls == 2 && asked == 3);
    parallel_for(100, 2, 1, [](std::int64_t, std::int64_t, int part) { CHECK(part < 2); });
    CHECK(calls == 3 && asked == 2);
    check_tasks(20, 1);
    CHECK(calls == 3);
    CHECK_THROWS(parallel_tasks(9, 2, [](std::int64_t, int) { throw std::logic_error("one"); }),
                 std::logic_error);
    std::thread([] { check_tasks(20, 2); }).join();  // another thread has its own word
    CHECK(calls == 4);
#if !defined(__SANITIZE_THREAD__)                  // which allows no threads in a child
    if (const pid_t child = fork(); child == 0) {  // its threads are not there
      check_tasks(20, 1);
      parallel_for(10, 2, 1, [](std::int64_t, std::int64_t, int) {});
      _exit(calls == 4 ? 0 : 1);
    } else {
      int status = 0;
      CHECK(waitpid(child, &status, 0) == child);
      CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
#endif
  }
  check_tasks(20, 3);
  set_team(nullptr);
  OnTeam team;
  check_tasks(20, 3);
  CHECK(calls == 4);
}
