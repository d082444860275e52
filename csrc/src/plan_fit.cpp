#include "plan_fit.hpp"

#include <string>
#include <vector>

#include "foregather/types.hpp"

namespace foregather {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw InputError("the plan " + why + "; make it for this file and this cache");
}

// A list of `steps` ranges over `total` items: from 0 to total, never falling.
void check_pointers(const std::vector<std::int64_t>& pointers, std::size_t steps, std::size_t total,
                    const std::string& name) {
  if (pointers.size() != steps + 1 || pointers.front() != 0 ||
      pointers.back() != static_cast<std::int64_t>(total)) {
    refuse("has a " + name + " that does not run from 0 to " + std::to_string(total));
  }
  for (std::size_t i = 0; i < steps; ++i) {
    if (pointers[i] > pointers[i + 1]) refuse("has a " + name + " that falls");
  }
}

class Check {
 public:
  Check(const Plan& plan, std::int64_t num_slots) : plan_(plan), num_slots_(num_slots) {}

  void step(std::size_t t) {
    where_ = " in step " + std::to_string(t);
    const std::int64_t rows = plan_.num_rows[t];
    if (rows < 0 || rows >= kNone) refuse("has " + std::to_string(rows) + " rows" + where_);
    seen_.assign(static_cast<std::size_t>(rows), false);
    given_ = 0;
    for (auto k = index(plan_.hit_ptr[t]); k < index(plan_.hit_ptr[t + 1]); ++k) {
      slot(plan_.hit_slot[k]);
      position(plan_.hit_position[k]);
    }
    std::int64_t last = 0;
    for (auto r = index(plan_.request_ptr[t]); r < index(plan_.request_ptr[t + 1]); ++r) {
      if (plan_.request_offset[r] < last) refuse("has requests that do not ascend" + where_);
      request(r);
      last = plan_.request_offset[r];
    }
    if (given_ != rows) refuse("leaves out rows of the output" + where_);
  }

 private:
  static std::size_t index(std::int64_t value) { return static_cast<std::size_t>(value); }

  void slot(std::uint32_t value) const {
    if (value >= num_slots_) refuse("names slot " + std::to_string(value) + where_);
  }
  void position(std::uint32_t value) {
    if (value >= seen_.size()) refuse("names output row " + std::to_string(value) + where_);
    if (seen_[value]) refuse("gives output row " + std::to_string(value) + " twice" + where_);
    seen_[value] = true;
    ++given_;
  }
  void request(std::size_t r) {
    const Geometry& at = plan_.geometry;
    const std::int64_t offset = plan_.request_offset[r], length = plan_.request_length[r];
    if (offset < 0 || length <= 0 || offset > at.file_bytes || length > at.file_bytes - offset) {
      refuse("has a request outside the file" + where_);
    }
    for (auto k = index(plan_.copy_ptr[r]); k < index(plan_.copy_ptr[r + 1]); ++k) {
      const std::uint32_t row = plan_.copy_row[k];
      const std::int64_t first = at.payload + std::int64_t{row} * at.row_bytes;
      if (row >= at.num_rows || first < offset || first + at.row_bytes > offset + length) {
        refuse("copies row " + std::to_string(row) + " out of a request without it" + where_);
      }
      if (plan_.copy_position[k] != kNone) position(plan_.copy_position[k]);
      if (plan_.copy_slot[k] != kNone) slot(plan_.copy_slot[k]);
    }
  }

  const Plan& plan_;
  const std::int64_t num_slots_;
  std::string where_;
  std::vector<bool> seen_;  ///< output rows of the step
  std::int64_t given_ = 0;
};

}  // namespace

void check_plan_fits(const Plan& plan, const Geometry& geometry, std::int64_t num_slots) {
  const Geometry& at = plan.geometry;
  if (at.num_rows != geometry.num_rows || at.row_bytes != geometry.row_bytes ||
      at.payload != geometry.payload || at.file_bytes != geometry.file_bytes) {
    refuse("is for another file");  // blocks may differ: they are the planner's choice
  }
  if (plan.num_slots != num_slots) {
    refuse("is for " + std::to_string(plan.num_slots) + " slots, but there are " +
           std::to_string(num_slots));
  }
  const std::size_t steps = plan.num_rows.size(), requests = plan.request_offset.size();
  if (plan.hit_position.size() != plan.hit_slot.size() || plan.request_length.size() != requests ||
      plan.copy_position.size() != plan.copy_row.size() ||
      plan.copy_slot.size() != plan.copy_row.size()) {
    refuse("has arrays of different lengths");
  }
  check_pointers(plan.hit_ptr, steps, plan.hit_slot.size(), "hit_ptr");
  check_pointers(plan.request_ptr, steps, requests, "request_ptr");
  check_pointers(plan.copy_ptr, requests, plan.copy_row.size(), "copy_ptr");
  Check check(plan, num_slots);
  for (std::size_t t = 0; t < steps; ++t) check.step(t);
}

}  // namespace foregather
