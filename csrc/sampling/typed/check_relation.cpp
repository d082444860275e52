#include "sampling/typed/check_relation.hpp"

#include <algorithm>
#include <atomic>
#include <string>

#include "parallel/pool.hpp"

namespace foregather {
namespace {

constexpr std::int64_t kRows = 1024;  // of a block of work

}  // namespace

template <typename Id>
void check_relation(const TypedRelation<Id>& relation, std::span<const std::int64_t> num_nodes,
                    int threads) {
  const auto& [indptr, indices] = relation.graph;
  if (relation.source >= num_nodes.size() || relation.target >= num_nodes.size()) {
    throw InputError("a relation between types that are not there");
  }
  const std::int64_t sources = num_nodes[relation.source], targets = num_nodes[relation.target];
  const auto edges = static_cast<std::int64_t>(indices.size());
  if (static_cast<std::int64_t>(indptr.size()) != targets + 1 || indptr.front() != 0 ||
      indptr.back() != edges || !std::is_sorted(indptr.begin(), indptr.end())) {
    throw InputError("indptr does not cut " + std::to_string(edges) + " edges into " +
                     std::to_string(targets) + " rows, one for each target");
  }
  if (!relation.time.empty() && relation.time.size() != indices.size()) {
    throw InputError("time does not have an entry for each edge");
  }
  std::atomic<std::int64_t> wrong{edges}, unordered{targets};
  const auto lower = [](std::atomic<std::int64_t>& least, std::int64_t found) {
    std::int64_t seen = least.load();
    while (found < seen && !least.compare_exchange_weak(seen, found)) continue;
  };
  parallel_blocks(targets, threads, kRows, [&](std::int64_t first, std::int64_t last, int) {
    for (auto v = static_cast<std::size_t>(first); v < static_cast<std::size_t>(last); ++v) {
      for (std::int64_t e = indptr[v]; e < indptr[v + 1]; ++e) {
        const auto u = static_cast<std::int64_t>(indices[static_cast<std::size_t>(e)]);
        if (u < 0 || u >= sources) lower(wrong, e);
      }
      if (relation.time.empty()) continue;
      const auto* time = relation.time.data();
      if (!std::is_sorted(time + indptr[v], time + indptr[v + 1])) {
        lower(unordered, static_cast<std::int64_t>(v));
      }
    }
  });
  if (wrong < edges) {
    throw InputError("indices hold node " +
                     std::to_string(indices[static_cast<std::size_t>(wrong.load())]) +
                     " at position " + std::to_string(wrong.load()) + ", but the source type has " +
                     std::to_string(sources) + " nodes (ids are 0 to N-1)");
  }
  if (unordered < targets) {
    throw InputError("the edges into node " + std::to_string(unordered.load()) +
                     " are not ordered by time");
  }
}

template void check_relation(const TypedRelation<std::uint32_t>&, std::span<const std::int64_t>,
                             int);
template void check_relation(const TypedRelation<std::int64_t>&, std::span<const std::int64_t>,
                             int);

}  // namespace foregather
