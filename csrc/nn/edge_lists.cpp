#include "nn/edge_lists.hpp"

#include <algorithm>
#include <atomic>
#include <string>

#include "base/types.hpp"
#include "parallel/pool.hpp"

namespace foregather::nn {
namespace {

constexpr std::int64_t kBlock = 64 * 1024;  // edges a task

[[noreturn]] void fail(std::int64_t edge, std::span<const std::int64_t> from,
                       std::span<const std::int64_t> to, std::int64_t num_sources,
                       std::int64_t num_targets) {
  const auto at = static_cast<std::size_t>(edge);
  const std::string place = "edge " + std::to_string(edge) + " goes from " +
                            std::to_string(from[at]) + " to " + std::to_string(to[at]);
  if (from[at] < 0 || from[at] >= num_sources) {
    throw InputError(place + ", but there are " + std::to_string(num_sources) +
                     " sources (ids are 0 to N-1)");
  }
  if (to[at] < 0 || to[at] >= num_targets) {
    throw InputError(place + ", but there are " + std::to_string(num_targets) +
                     " targets (ids are 0 to N-1)");
  }
  throw InputError(place + ", but the edge before it to " + std::to_string(to[at - 1]) +
                   "; sort the edges by target, edge_index[1]");
}

}  // namespace

template <typename Index>
void lists_by_target(std::span<const std::int64_t> from, std::span<const std::int64_t> to,
                     std::int64_t num_sources, std::span<std::int64_t> indptr,
                     std::span<Index> source, int threads) {
  const auto edges = static_cast<std::int64_t>(to.size());
  const auto num_targets = static_cast<std::int64_t>(indptr.size()) - 1;
  if (from.size() != to.size() || source.size() != to.size() || num_targets < 0) {
    throw InputError("the lists of edges differ in length, or indptr is empty");
  }
  std::atomic<std::int64_t> first_bad{edges};
  // All is checked before indptr is written: in lists that do not ascend, blocks would write the
  // same places.
  parallel_blocks(edges, threads, kBlock, [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t before = begin > 0 ? to[static_cast<std::size_t>(begin - 1)] : 0;
    for (std::int64_t k = begin; k < end; ++k) {
      const auto at = static_cast<std::size_t>(k);
      const std::int64_t s = from[at], t = to[at];
      if (s < 0 || s >= num_sources || t < 0 || t >= num_targets || t < before) {
        std::int64_t seen = first_bad.load(std::memory_order_relaxed);
        while (k < seen && !first_bad.compare_exchange_weak(seen, k, std::memory_order_relaxed)) {
        }
        return;
      }
      source[at] = static_cast<Index>(s);
      before = t;
    }
  });
  if (const std::int64_t bad = first_bad.load(std::memory_order_relaxed); bad < edges) {
    fail(bad, from, to, num_sources, num_targets);
  }
  // A block fills the entries from the target before it on to its last target.
  parallel_blocks(edges, threads, kBlock, [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t before = begin > 0 ? to[static_cast<std::size_t>(begin - 1)] : -1;
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t t = to[static_cast<std::size_t>(k)];
      for (; before < t; ++before) indptr[static_cast<std::size_t>(before + 1)] = k;
    }
  });
  const std::int64_t last = edges > 0 ? to[static_cast<std::size_t>(edges - 1)] : -1;
  std::fill(indptr.begin() + last + 1, indptr.end(), edges);
}

template <typename Index>
void lists_by_source(std::span<const std::int64_t> indptr, std::span<const Index> source,
                     std::span<std::int64_t> ptr, std::span<Index> edge, std::span<Index> target,
                     int threads) {
  const auto edges = static_cast<std::int64_t>(source.size());
  const auto num_sources = static_cast<std::int64_t>(ptr.size()) - 1;
  const auto num_targets = static_cast<std::int64_t>(indptr.size()) - 1;
  if (num_sources < 0 || num_targets < 0 || edge.size() != source.size() ||
      target.size() != source.size() || indptr.back() != edges) {
    throw InputError("the lists by source do not fit the lists by target");
  }
  // Counted one place further on, so that after the sums ptr[s] is where list s begins; placing
  // moves ptr[s + 1] from there to the end of list s, which is where list s + 1 begins.
  std::fill(ptr.begin(), ptr.end(), 0);
  std::int64_t* const next = ptr.data() + 1;
  if (threads <= 0) threads = default_threads();
  // Each thread has a range of sources and looks at all edges: reading them in order costs little
  // beside the placing at random.
  const auto parts = std::clamp<std::int64_t>(edges / kBlock, 1, std::min(threads, 8));
  parallel_tasks(parts, threads, [&](std::int64_t part, int) {
    const std::int64_t first = num_sources * part / parts, last = num_sources * (part + 1) / parts;
    for (std::int64_t k = 0; k < edges; ++k) {
      const std::int64_t s = source[static_cast<std::size_t>(k)];
      if (s >= first && s < last) ++next[s];
    }
  });
  std::int64_t before = 0;
  for (std::int64_t s = 0; s < num_sources; ++s) {
    const std::int64_t count = next[s];
    next[s] = before;
    before += count;
  }
  parallel_tasks(parts, threads, [&](std::int64_t part, int) {
    const std::int64_t first = num_sources * part / parts, last = num_sources * (part + 1) / parts;
    for (std::int64_t t = 0; t < num_targets; ++t) {
      const std::int64_t end = indptr[static_cast<std::size_t>(t + 1)];
      for (std::int64_t k = indptr[static_cast<std::size_t>(t)]; k < end; ++k) {
        const std::int64_t s = source[static_cast<std::size_t>(k)];
        if (s < first || s >= last) continue;
        const auto place = static_cast<std::size_t>(next[s]++);
        edge[place] = static_cast<Index>(k);
        target[place] = static_cast<Index>(t);
      }
    }
  });
}

#define FOREGATHER_LISTS(INDEX)                                                                \
  template void lists_by_target(std::span<const std::int64_t>, std::span<const std::int64_t>,  \
                                std::int64_t, std::span<std::int64_t>, std::span<INDEX>, int); \
  template void lists_by_source(std::span<const std::int64_t>, std::span<const INDEX>,         \
                                std::span<std::int64_t>, std::span<INDEX>, std::span<INDEX>, int);
FOREGATHER_LISTS(std::int32_t)
FOREGATHER_LISTS(std::int64_t)

}  // namespace foregather::nn
