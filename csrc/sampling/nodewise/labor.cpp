#include "sampling/nodewise/labor.hpp"

#include <algorithm>

#include "parallel/pool.hpp"
#include "sampling/links/excluding_draw.hpp"
#include "sampling/nodewise/each_layer.hpp"
#include "sampling/nodewise/labor_draw.hpp"

namespace foregather {

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
  const std::uint64_t key = batch_key(seed, epoch, batch / rule.every);
  each_layer(expansion_, graph, rule, seeds, out, [&](std::size_t layer, std::int64_t first) {
    LaborDraw<Id> draw{rule.weight,
                       rule.values,
                       rule.fanouts[layer],
                       SharedDraw(layer_key(key, rule.same ? 0 : layer)),
                       graph.indices.data(),
                       best_sweep<Id>(graph.num_nodes()),
                       scratch_};
    if (!leaves_out(excluded_, expansion_, first)) return expansion_.layer(graph, first, draw, out);
    ExcludingDraw<Id, LaborDraw<Id>> excluding{draw, &excluded_};
    expansion_.layer(graph, first, excluding, out);
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
