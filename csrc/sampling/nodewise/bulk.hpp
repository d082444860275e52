// Bulk: k minibatches of a node-wise sampler at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "parallel/pool.hpp"
#include "sampling/links/excluded.hpp"
#include "sampling/nodewise/expand.hpp"

namespace foregather {

/// Samples minibatches first_batch, first_batch + 1, ... on `threads` threads. Minibatch i has the
/// seeds seeds[ptr[i] .. ptr[i + 1]) and goes to *out[i]. `workers` holds at least `threads`
/// states. Where there are fewer minibatches than threads, each is the work of a team. Minibatch i
/// leaves out what is `excluded` for it.
template <typename Id, typename Worker, typename Rule>
void sample_bulk(const Topology<Id>& graph, const Rule& rule, std::span<const std::int64_t> seeds,
                 std::span<const std::int64_t> ptr, std::uint64_t seed, std::uint64_t epoch,
                 std::uint64_t first_batch, int threads, std::span<Worker> workers,
                 std::span<SampleArrays<Id>* const> out, const ExcludedEdges& excluded = {}) {
  check_cuts(seeds, ptr, out.size());
  excluded.check(out.size());
  const auto all = static_cast<std::size_t>(threads);
  const std::size_t team = std::max<std::size_t>(1, all / std::max<std::size_t>(1, out.size()));
  parallel_tasks(static_cast<std::int64_t>(out.size()), threads, [&](std::int64_t i, int worker) {
    const auto k = static_cast<std::size_t>(i);
    const auto own = workers.subspan(static_cast<std::size_t>(worker) * team, team);
    own[0].excluded().begin(excluded, k, graph);
    own[0].sample(graph, rule,
                  seeds.subspan(static_cast<std::size_t>(ptr[k]),
                                static_cast<std::size_t>(ptr[k + 1] - ptr[k])),
                  seed, epoch, first_batch + k, *out[k], own);
  });
}

}  // namespace foregather
