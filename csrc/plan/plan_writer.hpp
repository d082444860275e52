// PlanWriter: turns the decisions of a policy into the arrays of a Plan, step after step.
//
// A policy reports hits and misses of a step, changes its cache, and then calls end_step with a
// function that gives the slot of a row as it is after the step. A row that was read in the step
// and is in a slot afterwards came there by this step's read.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/bounds/bound.hpp"
#include "plan/miss.hpp"
#include "plan/plan.hpp"

namespace foregather {

class PlanWriter {
 public:
  PlanWriter(const Geometry& geometry, std::int64_t num_slots, const RequestShape& shape)
      : extents_(geometry, shape), shape_(shape) {
    plan_.geometry = geometry;
    plan_.num_slots = num_slots;
    plan_.hit_ptr.assign(1, 0);
    plan_.request_ptr.assign(1, 0);
    plan_.copy_ptr.assign(1, 0);
  }

  void hit(std::uint32_t slot, std::size_t position) {
    plan_.hit_slot.push_back(slot);
    plan_.hit_position.push_back(static_cast<std::uint32_t>(position));
  }
  void miss(std::uint32_t row, std::uint32_t position) {
    misses_.push_back(make_miss(row, position));
  }
  const std::vector<Miss>& misses() const { return misses_; }

  /// @param whole also copy the rows of a request that nobody asked for and that have a slot now;
  ///     `fresh(row)` says whether the row got its slot in this step
  template <typename SlotOf, typename Fresh>
  void end_step(std::size_t rows, SlotOf&& slot_of, bool whole, Fresh&& fresh) {
    sort_misses(misses_, scratch_, plan_.geometry.num_rows);
    std::int64_t visited = 0;
    extents_.for_requests(
        misses_, [&](std::int64_t lo, std::int64_t hi, std::span<const Miss> part) {
          plan_.request_offset.push_back(lo);
          plan_.request_length.push_back(hi - lo);
          std::int64_t first, last;
          extents_.rows_inside(lo, hi, first, last);
          std::int64_t row = std::max(first, visited);
          for (Miss miss : part) {
            if (whole) riders(row, miss_row(miss), slot_of, fresh);
            copy(miss_row(miss), miss_position(miss), slot_of(miss_row(miss)));
            row = static_cast<std::int64_t>(miss_row(miss)) + 1;
          }
          if (whole) riders(row, last, slot_of, fresh);
          visited = shape_.single ? 0 : std::max(visited, last);
          plan_.copy_ptr.push_back(static_cast<std::int64_t>(plan_.copy_row.size()));
        });
    misses_.clear();
    plan_.num_rows.push_back(static_cast<std::int64_t>(rows));
    plan_.hit_ptr.push_back(static_cast<std::int64_t>(plan_.hit_slot.size()));
    plan_.request_ptr.push_back(static_cast<std::int64_t>(plan_.request_offset.size()));
  }

  Plan finish() { return std::move(plan_); }
  void set_bounds(std::int64_t rows, std::int64_t blocks) {
    plan_.row_bound = rows;
    plan_.block_bound = blocks;
  }

 private:
  template <typename SlotOf, typename Fresh>
  void riders(std::int64_t row, std::int64_t end, SlotOf&& slot_of, Fresh&& fresh) {
    for (; row < end; ++row) {
      const auto id = static_cast<std::uint32_t>(row);
      if (fresh(id)) copy(id, kNone, slot_of(id));
    }
  }
  void copy(std::uint32_t row, std::uint32_t position, std::uint32_t slot) {
    if (position == kNone && slot == kNone) return;
    plan_.copy_row.push_back(row);
    plan_.copy_position.push_back(position);
    plan_.copy_slot.push_back(slot);
  }

  Extents extents_;
  RequestShape shape_;
  Plan plan_;
  std::vector<Miss> misses_, scratch_;
};

}  // namespace foregather
