#include "plan/plan.hpp"

#include <algorithm>
#include <string>

namespace foregather {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw InputError("this is not a plan that can be carried out: " + what);
}

// A pointer array of `count` parts over `total` things: starts at 0, never descends, ends at total.
void check_pointers(const std::vector<std::int64_t>& ptr, std::size_t count, std::size_t total,
                    const std::string& name) {
  if (ptr.size() != count + 1) {
    refuse(name + " has " + std::to_string(ptr.size()) + " entries, expected " +
           std::to_string(count + 1));
  }
  if (ptr.front() != 0 || ptr.back() != static_cast<std::int64_t>(total) ||
      !std::is_sorted(ptr.begin(), ptr.end())) {
    refuse(name + " does not ascend from 0 to " + std::to_string(total));
  }
}

void check_request(const Plan& plan, std::size_t r) {
  const std::int64_t offset = plan.request_offset[r], length = plan.request_length[r];
  const Geometry& g = plan.geometry;
  if (offset < 0 || length <= 0 || offset % kPage != 0 || length % kPage != 0 ||
      offset > g.file_bytes || length > g.file_bytes - offset) {
    refuse("request " + std::to_string(r) + " reads " + std::to_string(length) + " bytes at " +
           std::to_string(offset) + ", expected multiples of 4096 inside the file of " +
           std::to_string(g.file_bytes) + " bytes");
  }
  std::int64_t before = -1;
  for (std::int64_t c = plan.copy_ptr[r]; c < plan.copy_ptr[r + 1]; ++c) {
    const std::int64_t row = plan.copy_row[static_cast<std::size_t>(c)];
    if (row >= g.num_rows || g.start(row) < offset || g.end(row) > offset + length) {
      refuse("request " + std::to_string(r) + " does not cover row " + std::to_string(row));
    }
    if (row <= before) refuse("rows of request " + std::to_string(r) + " do not ascend");
    before = row;
  }
}

class StepCheck {
 public:
  explicit StepCheck(const Plan& plan)
      : plan_(plan), written_(static_cast<std::size_t>(plan.num_slots), 0) {}

  void check(std::size_t t) {
    seen_.assign(static_cast<std::size_t>(plan_.num_rows[t]), false);
    std::int64_t found = 0;
    for (std::int64_t h = plan_.hit_ptr[t]; h < plan_.hit_ptr[t + 1]; ++h) {
      const auto k = static_cast<std::size_t>(h);
      if (plan_.hit_slot[k] >= plan_.num_slots) slot_outside(t, plan_.hit_slot[k]);
      place(t, plan_.hit_position[k]);
      ++found;
    }
    std::int64_t before = -1;
    for (std::int64_t r = plan_.request_ptr[t]; r < plan_.request_ptr[t + 1]; ++r) {
      const auto k = static_cast<std::size_t>(r);
      if (plan_.request_offset[k] < before) {
        refuse("requests of step " + std::to_string(t) + " do not ascend");
      }
      before = plan_.request_offset[k];
      for (std::int64_t c = plan_.copy_ptr[k]; c < plan_.copy_ptr[k + 1]; ++c) {
        found += copy(t, static_cast<std::size_t>(c));
      }
    }
    if (found != plan_.num_rows[t]) {
      refuse("step " + std::to_string(t) + " fills " + std::to_string(found) + " of " +
             std::to_string(plan_.num_rows[t]) + " output rows");
    }
  }

 private:
  [[noreturn]] void slot_outside(std::size_t t, std::uint32_t slot) const {
    refuse("step " + std::to_string(t) + " uses slot " + std::to_string(slot) + " of " +
           std::to_string(plan_.num_slots));
  }
  void place(std::size_t t, std::uint32_t position) {
    if (position >= seen_.size()) {
      refuse("step " + std::to_string(t) + " writes output row " + std::to_string(position) +
             " of " + std::to_string(seen_.size()));
    }
    if (seen_[position]) {
      refuse("step " + std::to_string(t) + " writes output row " + std::to_string(position) +
             " twice");
    }
    seen_[position] = true;
  }
  std::int64_t copy(std::size_t t, std::size_t c) {
    const std::uint32_t slot = plan_.copy_slot[c];
    if (slot != kNone) {
      if (slot >= plan_.num_slots) slot_outside(t, slot);
      if (written_[slot] == t + 1) {
        refuse("step " + std::to_string(t) + " writes slot " + std::to_string(slot) + " twice");
      }
      written_[slot] = t + 1;
    }
    if (plan_.copy_position[c] == kNone) return 0;
    place(t, plan_.copy_position[c]);
    return 1;
  }

  const Plan& plan_;
  std::vector<std::size_t> written_;  ///< by slot: 1 + the step that wrote it last
  std::vector<bool> seen_;            ///< by output row of this step
};

}  // namespace

void check_geometry(const Geometry& g) {
  if (g.num_rows < 0 || g.num_rows >= static_cast<std::int64_t>(kNone) || g.row_bytes <= 0 ||
      g.payload < 0 || g.file_bytes < 0 || g.file_bytes % kPage != 0) {
    throw InputError("a feature file was given as " + std::to_string(g.num_rows) + " rows of " +
                     std::to_string(g.row_bytes) + " bytes from byte " + std::to_string(g.payload) +
                     " of " + std::to_string(g.file_bytes) +
                     "; expected fewer than 2^32 - 1 rows of at least 1 byte in a file of whole "
                     "4096-byte pages");
  }
  if (g.block_bytes <= 0 || g.block_bytes % kPage != 0) {
    throw InputError("a block of " + std::to_string(g.block_bytes) +
                     " bytes was given; expected a positive multiple of 4096");
  }
  if (g.payload > g.file_bytes || g.num_rows > (g.file_bytes - g.payload) / g.row_bytes) {
    throw InputError(std::to_string(g.num_rows) + " rows of " + std::to_string(g.row_bytes) +
                     " bytes do not fit in a file of " + std::to_string(g.file_bytes) +
                     " bytes; is the file truncated?");
  }
}

void check_plan(const Plan& plan) {
  check_geometry(plan.geometry);
  if (plan.num_slots < 0 || plan.num_slots >= static_cast<std::int64_t>(kNone)) {
    refuse(std::to_string(plan.num_slots) + " slots, expected fewer than 2^32 - 1");
  }
  const std::size_t steps = plan.num_rows.size();
  // no batch can have more rows than there are copies: a bound on the memory this check takes
  const std::size_t most = plan.hit_slot.size() + plan.copy_row.size();
  for (std::int64_t rows : plan.num_rows) {
    if (rows < 0 || static_cast<std::size_t>(rows) > most) {
      refuse("a batch of " + std::to_string(rows) + " rows, but only " + std::to_string(most) +
             " hits and copies in all");
    }
  }
  check_pointers(plan.hit_ptr, steps, plan.hit_slot.size(), "hit_ptr");
  check_pointers(plan.request_ptr, steps, plan.request_offset.size(), "request_ptr");
  check_pointers(plan.copy_ptr, plan.request_offset.size(), plan.copy_row.size(), "copy_ptr");
  if (plan.hit_position.size() != plan.hit_slot.size() ||
      plan.request_length.size() != plan.request_offset.size() ||
      plan.copy_position.size() != plan.copy_row.size() ||
      plan.copy_slot.size() != plan.copy_row.size()) {
    refuse("arrays that belong together differ in length");
  }
  for (std::size_t r = 0; r < plan.request_offset.size(); ++r) check_request(plan, r);
  StepCheck step(plan);
  for (std::size_t t = 0; t < steps; ++t) step.check(t);
}

PlanCounts count_plan(const Plan& plan) {
  PlanCounts n;
  for (std::int64_t rows : plan.num_rows) n.rows += rows;
  n.hits = static_cast<std::int64_t>(plan.hit_slot.size());
  n.misses = n.rows - n.hits;
  n.riders = static_cast<std::int64_t>(plan.copy_row.size()) - n.misses;
  for (std::uint32_t slot : plan.copy_slot) n.kept += slot != kNone;
  n.requests = static_cast<std::int64_t>(plan.request_offset.size());
  const std::int64_t block = plan.geometry.block_bytes;
  for (std::size_t r = 0; r < plan.request_offset.size(); ++r) {
    const std::int64_t first = plan.request_offset[r], length = plan.request_length[r];
    n.bytes += length;
    n.blocks += (first + length - 1) / block - first / block + 1;
    n.longest = std::max(n.longest, length);
  }
  n.useful_bytes = static_cast<std::int64_t>(plan.copy_row.size()) * plan.geometry.row_bytes;
  return n;
}

}  // namespace foregather
