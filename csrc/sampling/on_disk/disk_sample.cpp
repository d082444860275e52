#include "sampling/on_disk/disk_sample.hpp"

#include <algorithm>

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
  if (ptr.size() != out.size() + 1 || ptr.front() != 0 ||
      ptr.back() != static_cast<std::int64_t>(seeds.size()) ||
      !std::is_sorted(ptr.begin(), ptr.end())) {
    throw InputError("ptr does not cut the seeds into minibatches");
  }
  excluded.check(out.size());
  work_->index.finish();
  work_->batches.assign(out.size(), {});
  for (std::size_t i = 0; i < out.size(); ++i) {
    work_->batches[i].out = out[i];
    work_->batches[i].key = batch_key(seed, epoch, first_batch + i);
  }
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
