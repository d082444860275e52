// Step copies: the arrays of a Plan while our planner fills them.
//
// A copy is added when its row is met and gets its slot when the row is admitted; if the row is
// evicted in the same step, it loses the slot again. At the end of the step a copy that has neither
// a slot nor an output row has no purpose and is removed (free_riders.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/plan.hpp"

namespace foregather {

/// A plan without steps, with room for `rows` rows; untouched memory costs nothing.
inline Plan empty_plan(const Geometry& geometry, std::int64_t num_slots, std::size_t rows) {
  Plan out;
  out.geometry = geometry;
  out.num_slots = num_slots;
  out.hit_slot.reserve(rows);
  out.hit_position.reserve(rows);
  out.copy_row.reserve(rows);
  out.copy_position.reserve(rows);
  out.copy_slot.reserve(rows);
  out.hit_ptr.assign(1, 0);
  out.request_ptr.assign(1, 0);
  out.copy_ptr.assign(1, 0);
  return out;
}

inline void add_copy(std::uint32_t row, std::uint32_t position, Plan& out) {
  out.copy_row.push_back(row);
  out.copy_position.push_back(position);
  out.copy_slot.push_back(kNone);
}

}  // namespace foregather
