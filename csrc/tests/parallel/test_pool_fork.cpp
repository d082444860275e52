// A forked child of a process whose pool has threads makes a pool of its own.
//
// Skipped, with a sentence and exit code 77, where such a child cannot start any thread: this is
// tried by one that runs none of our code. qemu's user emulation ends it (7.2 does, by an assertion
// of its own), and ThreadSanitizer refuses it.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "tests/check.hpp"
#include "tests/parallel/pool_cases.hpp"

using namespace foregather;

namespace {

constexpr int kSkipped = 77;  // what CMakeLists.txt names SKIP_RETURN_CODE

template <typename Body>
int status_of_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

// Whether a forked child of this process, which has a second thread, can start one itself.
bool a_child_can_start_a_thread() {
  std::atomic<bool> there{false}, release{false};
  std::thread other([&] {
    there = true;
    while (!release) std::this_thread::yield();
  });
  while (!there) std::this_thread::yield();
  const int status = status_of_child([] { std::thread([] {}).join(); });
  release = true;
  other.join();
  if (status == 0) return true;
  std::printf(
      "skipped: here a forked child of a process with threads cannot start a thread of its own "
      "(a child that starts one, and nothing else, ended with status %d)\n",
      status);
  return false;
}

}  // namespace

int main() {
#ifdef __SANITIZE_THREAD__
  std::printf("skipped: ThreadSanitizer lets no child of a process with threads start threads\n");
  return kSkipped;
#else
  if (!a_child_can_start_a_thread()) return kSkipped;
  gives_as_many_threads_as_asked_for();
  const int status = status_of_child([] {
    if (pool_size() != 0) _exit(1);
    gives_as_many_threads_as_asked_for();
    calls_from_many_threads_and_inside_bodies();
  });
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  gives_as_many_threads_as_asked_for();
  return 0;
#endif
}
