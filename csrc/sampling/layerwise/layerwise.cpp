#include "sampling/layerwise/layerwise.hpp"

#include <algorithm>

#include "parallel/pool.hpp"
#include "sampling/keys.hpp"
#include "sampling/layerwise/layerwise_worker.hpp"

namespace foregather {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw InputError(what);
}

}  // namespace

template <typename Id>
LayerwiseTables<Id>::LayerwiseTables() = default;
template <typename Id>
LayerwiseTables<Id>::~LayerwiseTables() = default;

template <typename Id>
std::unique_ptr<LayerwiseWorker<Id>> LayerwiseTables<Id>::take() {
  std::lock_guard<std::mutex> hold(lock_);
  if (free_.empty()) return std::make_unique<LayerwiseWorker<Id>>();
  auto worker = std::move(free_.back());
  free_.pop_back();
  return worker;
}

template <typename Id>
void LayerwiseTables<Id>::give(std::unique_ptr<LayerwiseWorker<Id>> worker) {
  std::lock_guard<std::mutex> hold(lock_);
  free_.push_back(std::move(worker));
}

template <typename Id>
std::size_t LayerwiseTables<Id>::bytes() const {
  std::lock_guard<std::mutex> hold(lock_);
  std::size_t total = 0;
  for (const auto& worker : free_) total += worker->bytes();
  return total;
}

template <typename Id>
std::vector<LayerwiseSample<Id>> sample_layerwise(const LayerwiseGraph<Id>& graph,
                                                  const LayerwiseRule& rule,
                                                  const Minibatches<Id>& batches,
                                                  LayerwiseTables<Id>& pool, int threads) {
  const auto& ptr = batches.seed_ptr;
  require(!graph.indptr.empty(), "indptr is empty");
  require(graph.edge_weight.empty() || graph.edge_weight.size() == graph.indices.size(),
          "edge_weight does not have one entry for each edge");
  require(rule.column_weights.empty() ||
              (rule.column_weights.size() + 1 == graph.indptr.size() && rule.arrivals != nullptr),
          "column_weights do not have one number for each node");
  require(!ptr.empty() && ptr.front() == 0 && std::is_sorted(ptr.begin(), ptr.end()) &&
              ptr.back() == static_cast<std::int64_t>(batches.seeds.size()),
          "seed_ptr does not cover the seeds");
  std::vector<LayerwiseSample<Id>> made(ptr.size() - 1);
  const int most = threads > 0 ? threads : default_threads();
  std::vector<std::unique_ptr<LayerwiseWorker<Id>>> workers(static_cast<std::size_t>(most));
  parallel_tasks(static_cast<std::int64_t>(made.size()), most, [&](std::int64_t b, int worker) {
    if (!workers[worker]) workers[worker] = pool.take();
    const auto first = static_cast<std::size_t>(ptr[b]);
    const auto count = static_cast<std::size_t>(ptr[b + 1]) - first;
    const std::uint64_t key =
        batch_key(batches.seed, batches.epoch, batches.first_batch + static_cast<std::uint64_t>(b));
    made[b] = workers[worker]->run(graph, rule, batches.seeds.subspan(first, count), key);
  });
  // After a failure the workers are simply dropped.
  for (auto& worker : workers) {
    if (worker) pool.give(std::move(worker));
  }
  return made;
}

#define FOREGATHER_LAYERWISE(Id)                                               \
  template class LayerwiseTables<Id>;                                          \
  template std::vector<LayerwiseSample<Id>> sample_layerwise(                  \
      const LayerwiseGraph<Id>&, const LayerwiseRule&, const Minibatches<Id>&, \
      LayerwiseTables<Id>&, int);
FOREGATHER_LAYERWISE(std::uint32_t)
FOREGATHER_LAYERWISE(std::int64_t)
#undef FOREGATHER_LAYERWISE

}  // namespace foregather
