#include <string>

#include "plan/baselines/evictors.hpp"
#include "plan/baselines/policies.hpp"
#include "plan/baselines/row_set.hpp"
#include "plan/bounds/running_bound.hpp"
#include "plan/plan_writer.hpp"

namespace foregather {

OnlinePolicy parse_policy(const std::string& name) {
  constexpr const char* kNames[] = {"static", "lru", "clock", "sieve", "s3fifo"};
  for (int k = 0; k < 5; ++k) {
    if (name == kNames[k]) return static_cast<OnlinePolicy>(k);
  }
  throw InputError("policy " + name + " was given; expected static, lru, clock, sieve or s3fifo");
}

class OnlinePlanner::Work {
 public:
  Work(const Geometry& geometry, std::int64_t num_slots, OnlinePolicy policy,
       const PlannerOptions& options, std::span<const std::uint32_t> hot)
      : geometry_(geometry), slots_(num_slots), options_(options), hot_(hot.begin(), hot.end()) {
    check_geometry(geometry);
    if (num_slots < 0 || num_slots >= static_cast<std::int64_t>(kNone) ||
        static_cast<std::int64_t>(hot.size()) > num_slots) {
      throw InputError(std::to_string(num_slots) + " slots were given for " +
                       std::to_string(hot.size()) + " hot rows; expected at least one for each");
    }
    const std::span<const std::uint32_t> all[] = {hot};
    asked_.reset(geometry.num_rows);
    check_batches(geometry, all, asked_);
    if (options.bounds) bound_ = std::make_unique<BlockBound>(geometry, num_slots);
    const auto slots = static_cast<std::size_t>(num_slots);
    slot_of_.assign(static_cast<std::size_t>(geometry.num_rows), kNone);
    row_of_.assign(slots, kNone);
    if (policy == OnlinePolicy::kLru) evictor_ = std::make_unique<Lru>(slots);
    if (policy == OnlinePolicy::kClock) evictor_ = std::make_unique<Clock>(slots);
    if (policy == OnlinePolicy::kSieve) evictor_ = std::make_unique<Sieve>(slots);
    if (policy == OnlinePolicy::kS3Fifo) {
      evictor_ = std::make_unique<S3Fifo>(slots, static_cast<std::size_t>(geometry.num_rows));
    }
  }

  Plan plan(Batches batches) {
    check_batches(geometry_, batches, asked_);
    PlanWriter out(geometry_, slots_, {options_.merge_gap, options_.max_request, options_.single});
    if (options_.bounds) {
      out.set_bounds(row_bound(batches, slots_, row_of_), bound_->bulk(batches));
    }
    for (std::size_t t = 0; t < batches.size(); ++t) {
      find(batches[t], out);
      if (evictor_ && slots_ > 0) insert(batches[t], out);
      if (!hot_.empty()) fill(batches[t], out);
      out.end_step(
          batches[t].size(), [&](std::uint32_t row) { return slot_of_[row]; }, false,
          [](std::uint32_t) { return false; });
    }
    return out.finish();
  }

 private:
  void find(std::span<const std::uint32_t> batch, PlanWriter& out) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::uint32_t slot = slot_of_[batch[i]];
      if (slot == kNone) {
        out.miss(batch[i], static_cast<std::uint32_t>(i));
      } else {
        out.hit(slot, i);
        if (evictor_) evictor_->hit(slot);
      }
    }
  }

  void insert(std::span<const std::uint32_t> batch, PlanWriter& out) {
    for (Miss miss : out.misses()) {
      const std::uint32_t row = batch[miss_position(miss)];
      std::uint32_t slot = used_ < row_of_.size() ? static_cast<std::uint32_t>(used_++) : kNone;
      if (slot == kNone) {
        slot = evictor_->evict();
        slot_of_[row_of_[slot]] = kNone;
      }
      slot_of_[row] = slot;
      row_of_[slot] = row;
      evictor_->insert(slot, row);
    }
  }

  // The first step of a static cache: its rows that are not in the batch are read too.
  void fill(std::span<const std::uint32_t> batch, PlanWriter& out) {
    for (std::uint32_t row : batch) asked_.add(row);
    for (std::uint32_t row : hot_) {
      if (!asked_.has(row)) out.miss(row, kNone);
      slot_of_[row] = static_cast<std::uint32_t>(used_);
      row_of_[used_++] = row;
    }
    asked_.take_out(batch);
    hot_.clear();
  }

  Geometry geometry_;
  std::int64_t slots_;
  PlannerOptions options_;
  std::vector<std::uint32_t> hot_;
  std::unique_ptr<Evictor> evictor_;  ///< none: the cache never changes
  std::vector<std::uint32_t> slot_of_, row_of_;
  RowSet asked_;          ///< in a batch; empty between steps
  std::size_t used_ = 0;  ///< slots handed out so far
  std::unique_ptr<BlockBound> bound_;
};

OnlinePlanner::OnlinePlanner(const Geometry& geometry, std::int64_t num_slots, OnlinePolicy policy,
                             const PlannerOptions& options, std::span<const std::uint32_t> hot)
    : work_(std::make_unique<Work>(geometry, num_slots, policy, options, hot)) {}
OnlinePlanner::~OnlinePlanner() = default;
Plan OnlinePlanner::plan(Batches batches) { return work_->plan(batches); }

}  // namespace foregather
