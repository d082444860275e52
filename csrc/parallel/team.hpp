// Team: lets another library's threads do the tasks of a call, in place of the pool's helpers.
//
// torch's operators run on the threads of its OpenMP runtime, which look for more work for some
// milliseconds after each before they sleep. A kernel that runs between two operators would share
// the cores with them while they wait; run by them, it has the cores, and needs nobody to wake up.
//
// The core does not link OpenMP: whoever knows the runtime's entry (GOMP_parallel) says where it
// is. A child of fork has none of its threads and goes back to the pool.
#pragma once

namespace foregather {

/// Calls the function with its data on so many threads, the caller among them, and returns when all
/// have returned.
using TeamEntry = void (*)(void (*function)(void*), void* data, unsigned threads, unsigned flags);

/// Names the team of this process; null: there is none.
void set_team(TeamEntry entry);

/// While it lives, calls of parallel_* by this thread run on the team, if there is one.
class OnTeam {
 public:
  OnTeam();
  ~OnTeam();
  OnTeam(const OnTeam&) = delete;
  OnTeam& operator=(const OnTeam&) = delete;

 private:
  bool before_;
};

}  // namespace foregather
