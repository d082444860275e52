#include "sampling/nodewise/labor.hpp"

#include <algorithm>

#include "parallel/pool.hpp"
#include "sampling/nodewise/each_layer.hpp"

namespace foregather {
namespace {

// Tests `count` ids and writes begin + place of those below `limit`. A block without any is told
// by one comparison in lanes; in a long row most are.
template <typename Id>
[[gnu::always_inline]] inline std::uint32_t sweep_body(const Id* ids, std::uint32_t count,
                                                       SharedDraw shared, std::uint32_t limit,
                                                       std::int64_t begin, std::int64_t* edge) {
  constexpr std::uint32_t kLanes = 32;
  std::uint32_t numbers[kLanes];
  std::int64_t* next = edge;
  std::uint32_t p = 0;
  for (; p + kLanes <= count; p += kLanes) {
    const Id* block = ids + p;
    std::uint32_t below = 0;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      numbers[i] = shared.low(static_cast<std::uint32_t>(block[i]));
      below += numbers[i] < limit ? 1u : 0u;
    }
    if (below == 0) continue;
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      *next = begin + p + i;
      next += numbers[i] < limit;
    }
  }
  for (; p < count; ++p) {
    *next = begin + p;
    next += shared.low(static_cast<std::uint32_t>(ids[p])) < limit;
  }
  return static_cast<std::uint32_t>(next - edge);
}

template <typename Id>
std::uint32_t sweep_plain(const Id* ids, std::uint32_t count, SharedDraw shared,
                          std::uint32_t limit, std::int64_t begin, std::int64_t* edge) {
  return sweep_body(ids, count, shared, limit, begin, edge);
}

#if defined(__x86_64__) && defined(__GNUC__)
template <typename Id>
[[gnu::target("avx2")]] std::uint32_t sweep_avx2(const Id* ids, std::uint32_t count,
                                                 SharedDraw shared, std::uint32_t limit,
                                                 std::int64_t begin, std::int64_t* edge) {
  return sweep_body(ids, count, shared, limit, begin, edge);
}
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
#else
template <typename Id>
constexpr auto sweep_avx2 = &sweep_plain<Id>;
bool has_avx2() { return false; }
#endif

// Vertices of 2^32 and more: keys may differ inside a row.
std::uint32_t sweep_wide(const std::int64_t* ids, std::uint32_t count, SharedDraw shared,
                         std::uint32_t limit, std::int64_t begin, std::int64_t* edge) {
  std::int64_t* next = edge;
  for (std::uint32_t p = 0; p < count; ++p) {
    *next = begin + p;
    next += shared(static_cast<std::uint64_t>(ids[p])) < limit;
  }
  return static_cast<std::uint32_t>(next - edge);
}

template <typename Id>
using Sweep = std::uint32_t (*)(const Id*, std::uint32_t, SharedDraw, std::uint32_t, std::int64_t,
                                std::int64_t*);

template <typename Id>
Sweep<Id> best_sweep(std::int64_t num_nodes) {
  if constexpr (sizeof(Id) > 4) {
    if (num_nodes > std::int64_t{1} << 32) return &sweep_wide;
  }
  static const bool lanes = has_avx2();
  return lanes ? &sweep_avx2<Id> : &sweep_plain<Id>;
}

template <typename Id>
struct LaborDraw {
  static constexpr bool kAsks = true, kReads = true;
  const LaborRule& rule;
  std::int64_t fanout;
  SharedDraw shared;
  const Id* indices;
  Sweep<Id> sweep;
  std::vector<double>& scratch;

  std::int64_t likely(const FrontierRow<Id>& row) const {
    return fanout < 0 ? row.degree : std::min<std::int64_t>(row.degree, fanout);
  }
  // One more: the sweep writes before it knows whether it keeps.
  std::int64_t most(const FrontierRow<Id>& row) const { return std::int64_t{row.degree} + 1; }
  bool whole(const FrontierRow<Id>& row) const { return fanout < 0 || row.degree <= fanout; }

  // The beginning of a row; the processor's own prefetcher sees where it goes on.
  [[gnu::always_inline]] void ask(const FrontierRow<Id>& row) {
    constexpr std::uint32_t kMost = 256 / sizeof(Id);
    prefetch_range(indices + row.begin, std::min(row.degree, kMost));
  }

  std::uint32_t operator()(const FrontierRow<Id>& row, std::int64_t* edge) {
    const auto limit = static_cast<std::uint32_t>(labor_limit(fanout, row.degree));
    return sweep(indices + row.begin, row.degree, shared, limit, row.begin, edge);
  }

  void weigh(const FrontierRow<Id>& row, const std::int64_t* edge, std::uint32_t count,
             float* weight) {
    const double chance = static_cast<double>(labor_limit(fanout, row.degree)) * 0x1.0p-32;
    if (rule.values.empty()) {  // all alike
      const double own = 1.0 / static_cast<double>(row.degree) / chance;
      double sum = 0;
      for (std::uint32_t i = 0; i < count && rule.weight == LaborWeight::kReference; ++i)
        sum += own;
      const auto made =
          static_cast<float>(rule.weight == LaborWeight::kReference ? own / sum : own);
      std::fill(weight, weight + count, made);
      return;
    }
    scratch.resize(count);
    double sum = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      scratch[i] = static_cast<double>(rule.values[static_cast<std::size_t>(edge[i])]) / chance;
      sum += scratch[i];
    }
    const double divisor = rule.weight == LaborWeight::kReference && sum != 0 ? sum : 1;
    for (std::uint32_t i = 0; i < count; ++i) weight[i] = static_cast<float>(scratch[i] / divisor);
  }
};

}  // namespace

template <typename Id>
void column_draws(std::span<const std::int64_t> entry_ptr, std::span<const Id> columns,
                  std::span<const std::uint64_t> keys, std::span<std::uint32_t> out, int threads) {
  if (entry_ptr.size() != keys.size() + 1 || entry_ptr.front() != 0 ||
      !std::is_sorted(entry_ptr.begin(), entry_ptr.end()) ||
      entry_ptr.back() != static_cast<std::int64_t>(columns.size()) ||
      out.size() != columns.size()) {
    throw InputError("entry_ptr, columns, keys and out differ in length");
  }
  parallel_tasks(static_cast<std::int64_t>(keys.size()), threads, [&](std::int64_t b, int) {
    const auto batch = static_cast<std::size_t>(b);
    SharedDraw shared(keys[batch]);
    for (auto e = static_cast<std::size_t>(entry_ptr[batch]);
         e < static_cast<std::size_t>(entry_ptr[batch + 1]); ++e) {
      out[e] = shared(static_cast<std::uint64_t>(columns[e]));
    }
  });
}

template <typename Id>
void LaborWorker<Id>::sample(const Topology<Id>& graph, const LaborRule& rule,
                             std::span<const std::int64_t> seeds, std::uint64_t seed,
                             std::uint64_t epoch, std::uint64_t batch, SampleArrays<Id>& out,
                             std::span<LaborWorker>) {
  const std::uint64_t key = batch_key(seed, epoch, batch);
  each_layer(expansion_, graph, rule, seeds, out, [&](std::size_t layer, std::int64_t first) {
    LaborDraw<Id> draw{rule,
                       rule.fanouts[layer],
                       SharedDraw(layer_key(key, rule.same ? 0 : layer)),
                       graph.indices.data(),
                       best_sweep<Id>(graph.num_nodes()),
                       scratch_};
    expansion_.layer(graph, first, draw, out);
  });
}

#define FOREGATHER_LABOR(Id)                                                     \
  template class LaborWorker<Id>;                                                \
  template void column_draws(std::span<const std::int64_t>, std::span<const Id>, \
                             std::span<const std::uint64_t>, std::span<std::uint32_t>, int);
FOREGATHER_LABOR(std::uint32_t)
FOREGATHER_LABOR(std::int64_t)
#undef FOREGATHER_LABOR

}  // namespace foregather
