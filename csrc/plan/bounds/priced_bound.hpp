// Priced bound: a sharper lower bound on block reads, by putting a price on slots.
//
// The block bound of bound.hpp pretends that a block takes one slot. Here every row takes its slot:
// let a slot cost price[g] >= 0 between step g and g + 1. Then, whatever the prices,
//     sum over blocks of min (reads + price of the rows held) - num_slots * sum(price)
// is at most what any plan with that many slots reads (Lagrangian relaxation of the capacity). For
// given prices every block is on its own, and its best schedule is a shortest path over its uses:
// between two reads of a block, each row used in between is held from the first read to its last
// use. Prices rise where more is held than there are slots and fall where less is; the best value
// found is returned. Rows cached before the bulk make the first read of their block free, which
// only lowers it.
//
// Time: rounds * (accesses * uses of a block that are worth considering). Meant for reports and
// choices, not for every bulk.
#pragma once

#include <cstdint>
#include <span>

#include "plan/bounds/bound.hpp"

namespace foregather {

/// Fewest blocks read by any plan that keeps at most num_slots rows. Checks rows; rounds >= 1.
std::int64_t priced_bound(const Geometry& geometry, Batches batches, std::int64_t num_slots,
                          std::span<const std::uint32_t> cached, int rounds = 40);

}  // namespace foregather
