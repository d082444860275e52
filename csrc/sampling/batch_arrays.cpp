#include "sampling/batch_arrays.hpp"

#include <algorithm>
#include <atomic>
#include <string>

#include "parallel/pool.hpp"

namespace foregather {
namespace {

constexpr std::int64_t kGrain = std::int64_t{1} << 16;  // entries that are worth another thread
constexpr std::int64_t kAhead = 16;                     // labels asked for ahead of use

template <typename From>
void widen(const From* from, std::int64_t begin, std::int64_t end, std::int64_t* to) {
  for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<std::int64_t>(from[i]);
}

}  // namespace

template <typename Id>
void widen_ids(std::span<const Id> node, std::span<const std::uint32_t> row,
               std::span<const std::uint32_t> col, std::span<const std::int64_t> edge,
               const BatchIds& out, int threads) {
  const std::size_t edges = row.size();
  if (col.size() != edges || edge.size() != edges || out.node.size() != node.size() ||
      out.ends.size() != 2 * edges || out.edge.size() != edges) {
    throw InputError("the arrays of a batch do not fit those of its sample");
  }
  // One range over all that is copied, so that threads have equal shares.
  const auto n = static_cast<std::int64_t>(node.size()), m = static_cast<std::int64_t>(edges);
  const auto part = [](std::int64_t at, std::int64_t first, std::int64_t size) {
    return std::clamp<std::int64_t>(at - first, 0, size);
  };
  parallel_for(n + 3 * m, threads, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    widen(node.data(), part(begin, 0, n), part(end, 0, n), out.node.data());
    widen(row.data(), part(begin, n, m), part(end, n, m), out.ends.data());
    widen(col.data(), part(begin, n + m, m), part(end, n + m, m), out.ends.data() + m);
    widen(edge.data(), part(begin, n + 2 * m, m), part(end, n + 2 * m, m), out.edge.data());
  });
}

template <typename Label, typename Id>
void widen_labels(std::span<const Label> labels, std::span<const Id> ids,
                  std::span<std::int64_t> out, int threads) {
  if (ids.size() != out.size()) throw InputError("ids and out differ in length");
  const auto count = static_cast<std::uint64_t>(labels.size());
  std::atomic<bool> outside{false};  // relaxed: read when all threads have ended
  const auto whole = static_cast<std::int64_t>(ids.size());
  parallel_for(whole, threads, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    const Id* id = ids.data();
    const Label* label = labels.data();
    bool bad = false;
    for (std::int64_t k = begin; k < end; ++k) {
      if (k + kAhead < end && static_cast<std::uint64_t>(id[k + kAhead]) < count) {
        __builtin_prefetch(label + id[k + kAhead]);
      }
      const auto at = static_cast<std::uint64_t>(id[k]);
      const bool inside = at < count;
      bad |= !inside;
      out[static_cast<std::size_t>(k)] = inside ? static_cast<std::int64_t>(label[at]) : 0;
    }
    if (bad) outside.store(true, std::memory_order_relaxed);
  });
  if (outside.load(std::memory_order_relaxed)) {
    throw InputError("ids of labels hold a node outside the " + std::to_string(count) + " labels");
  }
}

#define FOREGATHER_LABELS(Label, Id)                                                               \
  template void widen_labels(std::span<const Label>, std::span<const Id>, std::span<std::int64_t>, \
                             int);
#define FOREGATHER_WIDEN(Id)                                                             \
  template void widen_ids(std::span<const Id>, std::span<const std::uint32_t>,           \
                          std::span<const std::uint32_t>, std::span<const std::int64_t>, \
                          const BatchIds&, int);                                         \
  FOREGATHER_LABELS(std::int8_t, Id)                                                     \
  FOREGATHER_LABELS(std::uint8_t, Id)                                                    \
  FOREGATHER_LABELS(std::int16_t, Id)                                                    \
  FOREGATHER_LABELS(std::uint16_t, Id)                                                   \
  FOREGATHER_LABELS(std::int32_t, Id)                                                    \
  FOREGATHER_LABELS(std::uint32_t, Id)                                                   \
  FOREGATHER_LABELS(std::int64_t, Id)
FOREGATHER_WIDEN(std::uint32_t)
FOREGATHER_WIDEN(std::int64_t)
#undef FOREGATHER_WIDEN
#undef FOREGATHER_LABELS

}  // namespace foregather
