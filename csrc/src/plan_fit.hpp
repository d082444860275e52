// Plan fit: whether a plan can be carried out on a file and a cache without leaving its memory.
// Private to the executors.
#pragma once

#include "foregather/plan.hpp"

namespace foregather {

/// InputError in one sentence where the plan is not for this geometry and this many slots, or is
/// not well formed: pointers that fall, positions given out twice or not at all, slots or rows
/// outside, a row that does not lie inside its request, requests of a step that do not ascend.
/// Linear in the plan and, unlike check_plan, without memory for each slot: a plan of one small
/// step is checked in its own size. So a slot that is written twice in a step is not found here.
void check_plan_fits(const Plan& plan, const Geometry& geometry, std::int64_t num_slots);

}  // namespace foregather
