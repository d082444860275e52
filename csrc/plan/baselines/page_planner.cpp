#include <algorithm>
#include <string>

#include "plan/baselines/policies.hpp"
#include "plan/baselines/row_set.hpp"
#include "plan/bounds/running_bound.hpp"
#include "plan/buckets.hpp"
#include "plan/plan_writer.hpp"

namespace foregather {

// A block's unit number is the block in which its rows start; its rows are [first, last).
class PagePlanner::Work {
 public:
  Work(const Geometry& geometry, std::int64_t num_slots, const PlannerOptions& options)
      : geometry_(geometry), slots_(num_slots), options_(options), extents_(geometry, shape()) {
    check_geometry(geometry);
    if (num_slots < 0 || num_slots >= static_cast<std::int64_t>(kNone)) {
      throw InputError(std::to_string(num_slots) + " slots were given; expected 0 to 2^32 - 2");
    }
    width_ = (geometry.block_bytes + geometry.row_bytes - 1) / geometry.row_bytes;
    const auto blocks = static_cast<std::size_t>(geometry.file_bytes / geometry.block_bytes + 1);
    if (options.bounds) bound_ = std::make_unique<BlockBound>(geometry, num_slots);
    places_ = std::min(static_cast<std::size_t>(num_slots / width_), blocks);
    place_of_.assign(blocks, kNone);
    fresh_.reset(static_cast<std::int64_t>(blocks));
    asked_.reset(geometry.num_rows);
    next_use_.assign(blocks, kNone);
    block_of_.assign(places_, kNone);
    for (std::size_t place = places_; place-- > 0;) {
      free_.push_back(static_cast<std::uint32_t>(place));
    }
  }

  Plan plan(Batches batches, Batches ahead) {
    check_batches(geometry_, ahead, asked_);
    check_batches(geometry_, batches, asked_);
    horizon_ = batches.size() + ahead.size();
    look(batches, ahead);
    buckets_.reset(horizon_ + 1, places_ + 1);
    for (std::uint32_t block : block_of_) {
      if (block != kNone) buckets_.push(bucket(block), block);
    }
    PlanWriter out(geometry_, slots_, shape());
    if (options_.bounds) bounds(batches, out);
    for (std::size_t t = 0; t < batches.size(); ++t) step(batches[t], t, begins_[t], out);
    std::fill(next_use_.begin(), next_use_.end(), kNone);
    return out.finish();
  }

 private:
  RequestShape shape() const { return {options_.merge_gap, options_.max_request, false}; }
  std::size_t bucket(std::uint32_t block) const {
    return next_use_[block] == kNone ? horizon_ : next_use_[block];
  }

  // Next uses of blocks, from the last batch to the first; inside a batch in the order of first
  // use.
  void look(Batches batches, Batches ahead) {
    next_.clear();
    begins_.assign(batches.size(), 0);
    for (std::size_t t = horizon_; t-- > 0;) {
      const bool planned = t < batches.size();
      const auto batch = planned ? batches[t] : ahead[t - batches.size()];
      if (planned) begins_[t] = next_.size();
      for (std::uint32_t row : batch) {
        const auto block = static_cast<std::size_t>(extents_.block(row));
        if (next_use_[block] == t) continue;
        if (planned) next_.push_back(next_use_[block]);
        next_use_[block] = static_cast<std::uint32_t>(t);
      }
    }
  }

  void bounds(Batches batches, PlanWriter& out) {
    std::vector<std::uint32_t> cached;
    cached.reserve(places_ * static_cast<std::size_t>(width_));
    for (std::uint32_t block : block_of_) {
      if (block == kNone) continue;
      std::int64_t first, last;
      rows(block, first, last);
      for (; first < last; ++first) cached.push_back(static_cast<std::uint32_t>(first));
    }
    out.set_bounds(row_bound(batches, slots_, cached), bound_->bulk(batches));
  }

  void rows(std::uint32_t block, std::int64_t& first, std::int64_t& last) const {
    const std::int64_t lo = static_cast<std::int64_t>(block) * geometry_.block_bytes;
    const std::int64_t hi = lo + geometry_.block_bytes;
    const std::int64_t r = geometry_.row_bytes, p = geometry_.payload;
    first = lo <= p ? 0 : (lo - p + r - 1) / r;
    last = hi <= p ? 0 : std::min(geometry_.num_rows, (hi - p + r - 1) / r);
  }

  void step(std::span<const std::uint32_t> batch, std::size_t t, std::size_t at, PlanWriter& out) {
    buckets_.drop(t);
    touched_.clear();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      asked_.add(batch[i]);
      const auto block = static_cast<std::uint32_t>(extents_.block(batch[i]));
      if (next_use_[block] == t) {  // the first of its rows in this batch
        next_use_[block] = next_[at++];
        touched_.push_back(block);
      }
      const std::uint32_t slot = slot_of(batch[i]);
      if (slot != kNone) {
        out.hit(slot, i);
      } else {
        out.miss(batch[i], static_cast<std::uint32_t>(i));
      }
    }
    for (std::uint32_t block : touched_) {
      if (place_of_[block] != kNone) buckets_.push(bucket(block), block);
    }
    for (std::uint32_t block : touched_) {
      if (place_of_[block] == kNone) admit(block);
    }
    for (std::uint32_t block : touched_) {
      if (fresh_.has(block) && place_of_[block] != kNone) cover_last(block, out);
    }
    out.end_step(
        batch.size(), [&](std::uint32_t row) { return slot_of(row); }, true,
        [&](std::uint32_t row) {
          const auto block = static_cast<std::size_t>(extents_.block(row));
          return fresh_.has(static_cast<std::uint32_t>(block)) && place_of_[block] != kNone;
        });
    asked_.take_out(batch);
    fresh_.take_out(touched_);
  }

  // The last row of a block may end in the next one, which is then read as well.
  void cover_last(std::uint32_t block, PlanWriter& out) {
    std::int64_t first, last;
    rows(block, first, last);
    const auto row = static_cast<std::uint32_t>(last - 1);
    const std::int64_t end = (static_cast<std::int64_t>(block) + 1) * geometry_.block_bytes;
    if (geometry_.end(row) > end && !asked_.has(row)) out.miss(row, kNone);
  }

  void admit(std::uint32_t block) {
    const std::size_t place = bucket(block);
    if (free_.empty()) {
      if (static_cast<std::int64_t>(place) >= buckets_.highest()) return;
      const std::uint32_t victim = buckets_.pop();
      free_.push_back(place_of_[victim]);
      place_of_[victim] = kNone;
    }
    place_of_[block] = free_.back();
    free_.pop_back();
    block_of_[place_of_[block]] = block;
    fresh_.add(block);
    buckets_.push(place, block);
  }

  std::uint32_t slot_of(std::uint32_t row) const {
    const auto block = static_cast<std::uint32_t>(extents_.block(row));
    if (place_of_[block] == kNone) return kNone;
    std::int64_t first, last;
    rows(block, first, last);
    return static_cast<std::uint32_t>(place_of_[block] * width_ + row - first);
  }

  Geometry geometry_;
  std::int64_t slots_;
  PlannerOptions options_;
  Extents extents_;
  std::int64_t width_ = 1;  ///< slots of a block
  std::size_t places_ = 0;  ///< blocks the cache can hold
  std::size_t horizon_ = 0;
  std::vector<std::uint32_t> place_of_, next_use_, block_of_;  ///< by block, by block, by place
  RowSet asked_;  ///< rows of the step; empty between steps
  RowSet fresh_;  ///< blocks that the step admitted, in the same way
  std::vector<std::uint32_t> free_, next_, touched_;
  std::vector<std::size_t> begins_;  ///< by step: its first entry in next_
  Buckets buckets_;
  std::unique_ptr<BlockBound> bound_;
};

PagePlanner::PagePlanner(const Geometry& geometry, std::int64_t num_slots,
                         const PlannerOptions& options)
    : work_(std::make_unique<Work>(geometry, num_slots, options)) {}
PagePlanner::~PagePlanner() = default;
Plan PagePlanner::plan(Batches batches, Batches ahead) { return work_->plan(batches, ahead); }

std::int64_t PagePlanner::bytes(const Geometry& geometry, std::int64_t num_slots,
                                std::int64_t accesses, std::int64_t steps) {
  check_geometry(geometry);
  const std::int64_t blocks = geometry.file_bytes / geometry.block_bytes + 1;
  const auto units = static_cast<std::size_t>(blocks);
  const auto slots = static_cast<std::size_t>(std::min(num_slots, geometry.num_rows));
  const auto used = static_cast<std::size_t>(accesses);
  // place and next use of a block; what is asked for and what is fresh
  std::size_t total = 8 * units + RowSet::bytes(geometry.num_rows) + RowSet::bytes(blocks);
  // a place has a slot at least: its block, whether it is free, the buckets, and its row for a
  // bound
  const std::size_t places = std::min(slots, units);
  total += 8 * places + 4 * slots;
  total += Buckets::bytes(static_cast<std::size_t>(steps) + 1, places + 1);
  // next uses and blocks of a batch in vectors that double, and the places of rows for a bound
  total += used * 32;
  return static_cast<std::int64_t>(total) + BlockBound::bytes(geometry);
}

}  // namespace foregather
