#include "sampling/on_disk/disk_sample.hpp"

#include <numeric>
#include <vector>

#include "sampling/nodewise/trees.hpp"
#include "sampling/on_disk/disk_work.hpp"

namespace foregather {

template <typename Id>
DiskSampler<Id>::DiskSampler(std::unique_ptr<BlockReader> reader, const DiskShape& shape,
                             std::size_t memory)
    : work_(std::make_unique<Work>(std::move(reader), shape, memory)) {}

template <typename Id>
DiskSampler<Id>::~DiskSampler() = default;
template <typename Id>
RowIndex& DiskSampler<Id>::index() {
  return work_->index;
}

template <typename Id>
void DiskSampler<Id>::sample(const NeighborRule& rule, std::span<const std::int64_t> seeds,
                             std::span<const std::int64_t> ptr, std::uint64_t seed,
                             std::uint64_t epoch, std::uint64_t first_batch, int threads,
                             std::span<SampleArrays<Id>* const> out,
                             const std::function<void()>& check, const ExcludedEdges& excluded) {
  check_cuts(seeds, ptr, out.size());
  excluded.check(out.size());
  work_->batches.assign(out.size(), {});
  for (std::size_t i = 0; i < out.size(); ++i) {
    work_->batches[i].out = out[i];
    work_->batches[i].key = batch_key(seed, epoch, first_batch + i);
  }
  run(rule, seeds, ptr, threads, check, excluded);
}

template <typename Id>
void DiskSampler<Id>::sample_trees(const NeighborRule& rule, std::span<const std::int64_t> seeds,
                                   std::span<const std::int64_t> rows,
                                   std::span<const std::int64_t> ptr, std::uint64_t seed,
                                   std::uint64_t epoch, int threads,
                                   std::span<SampleArrays<Id>* const> out,
                                   const std::function<void()>& check,
                                   const ExcludedEdges& excluded) {
  check_cuts(seeds, ptr, out.size());
  excluded.check(seeds.size());
  if (rows.size() != seeds.size()) throw InputError("rows does not have an entry for each seed");
  if (!rule.once) throw InputError("trees are expanded once, not per layer");
  std::vector<SampleArrays<Id>> trees(seeds.size());
  std::vector<std::int64_t> each(seeds.size() + 1);
  std::iota(each.begin(), each.end(), std::int64_t{0});
  work_->batches.assign(seeds.size(), {});
  for (std::size_t s = 0; s < seeds.size(); ++s) {
    work_->batches[s].out = &trees[s];
    work_->batches[s].key = batch_key(seed, epoch, static_cast<std::uint64_t>(rows[s]));
  }
  run(rule, seeds, each, threads, check, excluded);
  work_->batches = {};
  TreeJoin<Id> join;
  for (std::size_t i = 0; i < out.size(); ++i) {
    join.begin(rule.fanouts.size());
    for (std::int64_t s = ptr[i]; s < ptr[i + 1]; ++s) {
      join.add(trees[static_cast<std::size_t>(s)]);
      trees[static_cast<std::size_t>(s)] = {};  // so that no third copy is held
    }
    join.join(false, *out[i]);
  }
}

template <typename Id>
void DiskSampler<Id>::run(const NeighborRule& rule, std::span<const std::int64_t> seeds,
                          std::span<const std::int64_t> ptr, int threads,
                          const std::function<void()>& check, const ExcludedEdges& excluded) {
  work_->index.finish();
  try {
    const int used = threads <= 0 ? default_threads() : threads;
    work_->sample(rule, seeds, ptr, excluded, used, check);
  } catch (...) {
    work_->pass.forget();  // some slots may not hold what the tables say
    work_->clear();
    throw;
  }
}

template <typename Id>
void DiskSampler<Id>::hold(std::span<const std::int64_t> rows) {
  work_->hold(rows);
}
template <typename Id>
const DiskShares& DiskSampler<Id>::shares() const {
  return work_->shares;
}
template <typename Id>
DiskCounters DiskSampler<Id>::counters() const {
  return work_->counted;
}
template <typename Id>
PassCounters DiskSampler<Id>::pass_counters() const {
  return work_->pass.counters();
}
template <typename Id>
ReadCounters DiskSampler<Id>::read_counters() const {
  return work_->reader->counters();
}
template <typename Id>
const BlockReader& DiskSampler<Id>::reader() const {
  return *work_->reader;
}

template class DiskSampler<std::uint32_t>;
template class DiskSampler<std::int64_t>;

}  // namespace foregather
