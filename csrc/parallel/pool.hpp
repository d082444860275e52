// Pool: splits a range of independent work items over threads that stay from one call to the next.
//
// parallel_for(n, threads, body) calls body(begin, end, part) on contiguous, disjoint parts
// that together cover [0, n). Part boundaries depend only on n, threads and grain, so a body that
// writes to places determined by its items gives the same result for any thread count. The number
// a body is given as its last argument is below `threads`, and no two calls that run at the same
// time for one range have the same, so it may choose a scratch area.
//
// A call is over when its tasks are over: the caller works itself, helpers take tasks when they
// come, and a helper that comes too late (its core was busy) is not waited for. So progress never
// depends on a helper, a call inside a body cannot deadlock, and calls from several threads share
// the helpers that are free, or get more. Where the system gives no more threads, those at hand do
// the work. After the first exception no further task is started; it is rethrown in the caller when
// the tasks already begun have ended.
//
// Helpers are started when they are first needed. They sleep between calls, after looking for
// more work for some microseconds, and end after ten idle seconds, because a disk reader may once
// have asked for hundreds. They are detached, take no signals, and use only memory that is never
// freed, so they are of no concern when the process ends. After fork the child begins with no
// helpers; forking inside a body is not supported.
#pragma once

#include <cstdint>
#include <functional>

namespace foregather {

/// What `threads <= 0` means: the number of hardware threads this process may use.
int default_threads();

/// Static split into at most `threads` parts; parts of fewer than `grain` items are not made.
void parallel_for(std::int64_t n, int threads, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t, int)>& body);

/// Dynamic split into blocks of `block` items: a thread that comes late takes fewer.
/// body(begin, end, worker); a range of one block stays on the caller's thread.
void parallel_blocks(std::int64_t n, int threads, std::int64_t block,
                     const std::function<void(std::int64_t, std::int64_t, int)>& body);

/// Dynamic split: items are handed out one by one, for work of uneven size. body(item, worker).
void parallel_tasks(std::int64_t n, int threads,
                    const std::function<void(std::int64_t, int)>& body);

/// Helpers that exist now, for tests and reports.
int pool_size();

}  // namespace foregather
