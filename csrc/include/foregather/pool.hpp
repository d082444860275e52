// Pool: splits a range of independent work items over threads.
//
// parallel_for(n, threads, body) calls body(begin, end, worker) on contiguous, disjoint parts
// that together cover [0, n). Part boundaries depend only on n, threads and grain, so a body that
// writes to places determined by its items gives the same result for any thread count. The first
// exception thrown by a body is rethrown in the caller after all threads have stopped.
//
// Threads are started per call: the loops here run for milliseconds or more, and having no
// resident threads keeps fork, interpreter shutdown and torch's own pool out of the picture.
#pragma once

#include <cstdint>
#include <functional>

namespace foregather {

/// What `threads <= 0` means: the number of hardware threads this process may use.
int default_threads();

/// Static split into at most `threads` parts; parts of fewer than `grain` items are not made.
void parallel_for(std::int64_t n, int threads, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t, int)>& body);

/// Dynamic split into blocks of `block` items: a thread that starts late (its core was busy) takes
/// fewer. body(begin, end, worker); a range of one block stays on the caller's thread.
void parallel_blocks(std::int64_t n, int threads, std::int64_t block,
                     const std::function<void(std::int64_t, std::int64_t, int)>& body);

/// Dynamic split: items are handed out one by one, for work of uneven size. body(item, worker).
void parallel_tasks(std::int64_t n, int threads,
                    const std::function<void(std::int64_t, int)>& body);

}  // namespace foregather
