// Free riders: rows that come with a block that was read for another row, and may stay in the
// cache.
//
// They cost no read of their own, so they compete for slots like requested rows: whoever is used
// sooner stays. That is where a plan by rows beats a plan by blocks.
// - offer_riders(): while a request is planned, the rows between the requested ones are offered.
//   Most are not worth a slot, so those that may be are picked without a branch, from their entries
//   alone; the planner decides about the few that are left.
// - drop_lost_riders(): at the end of a step, riders that lost their slot again are taken back.
//
// Riders change neither what is requested in a step nor its outputs, only what is cached after it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "plan/plan.hpp"

namespace foregather {

constexpr std::int64_t kRide = 256;  ///< rows of a request that are looked at in one go

/// Offers the rows [row, end) of a request, in order; nobody asked for them in this step.
///
/// @param entries by row, as in RowTable; those of rows in the cache are above all words
/// @param worst_word () -> word: rows from here on are not worth keeping; some below are not either
/// @param keep (row, word) -> whether the row was given a slot, which may change the worst word
template <class Entry, class Worst, class Keep>
void offer_riders(const Entry* entries, std::int64_t row, std::int64_t end, const Worst& worst_word,
                  const Keep& keep) {
  std::array<std::uint32_t, kRide> likely;
  while (row < end) {
    std::uint32_t worst = worst_word();
    std::size_t count = 0;
    for (const std::int64_t stop = std::min(end, row + kRide); row < stop; ++row) {
      likely[count] = static_cast<std::uint32_t>(row);
      count += static_cast<std::size_t>(entries[row] < worst);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t word = entries[likely[i]];
      if (word < worst && keep(likely[i], word)) worst = worst_word();
    }
  }
}

/// Takes back the riders of a step that did not stay: copies with neither a slot nor an output row.
///
/// @param first_request, first_copy where the step begins in the plan
/// @return how many copies were removed
std::size_t drop_lost_riders(Plan& out, std::size_t first_request, std::size_t first_copy);

}  // namespace foregather
