// Step copies: the arrays of a Plan while our planner fills them, and the end of a step.
//
// A copy is added when its row is met and gets its slot when the row is admitted; if the row is
// evicted in the same step, it loses the slot again. At the end of the step a copy that has neither
// a slot nor an output row has no purpose and is removed.
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

/// Takes back the riders of a step that did not stay.
///
/// @return how many copies were removed
inline std::size_t drop_lost_riders(Plan& out, std::size_t first_request, std::size_t first_copy) {
  std::size_t from = first_copy, to = first_copy;
  for (std::size_t r = first_request; r < out.request_offset.size(); ++r) {
    const auto end = static_cast<std::size_t>(out.copy_ptr[r + 1]);
    for (; from < end; ++from) {
      const std::uint32_t slot = out.copy_slot[from], position = out.copy_position[from];
      out.copy_row[to] = out.copy_row[from];
      out.copy_position[to] = position;
      out.copy_slot[to] = slot;
      to += static_cast<std::size_t>((slot != kNone) | (position != kNone));
    }
    out.copy_ptr[r + 1] = static_cast<std::int64_t>(to);
  }
  const std::size_t gone = out.copy_row.size() - to;
  out.copy_row.resize(to);
  out.copy_position.resize(to);
  out.copy_slot.resize(to);
  return gone;
}

}  // namespace foregather
