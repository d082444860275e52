#include "plan/bounds/running_bound.hpp"

#include <algorithm>
#include <limits>

namespace foregather {

RunningBound::RunningBound(std::size_t units, std::int64_t slots) : units_(units), slots_(slots) {
  last_.reserve_exactly(units);
  std::fill_n(last_.data(), units, 0);
  begin();
}

void RunningBound::begin() {
  if (now_ > std::numeric_limits<std::uint32_t>::max() / 2) {
    std::fill_n(last_.data(), units_, 0);
    now_ = 0;
  }
  ++now_;  // the gap before the first step, over which the cache holds what it was given
  floor_ = first_ = now_;
  taken_.clear();
}

void RunningBound::open() {
  ++now_;
  taken_.push_back(0);  // the gap before this step
  if (taken_.size() > kWindow) {
    taken_.erase(taken_.begin(), taken_.begin() + static_cast<std::ptrdiff_t>(kWindow / 2));
    first_ += static_cast<std::uint32_t>(kWindow / 2);
  }
  ends_.assign(taken_.size(), 0);
  uses_ = 0;
}

std::int64_t RunningBound::close() {
  // From the shortest interval to the longest: `room` is the fewest places left in the gaps passed,
  // counted before what this step accepts, `accepted` covers all gaps that are still to come.
  std::int64_t room = std::numeric_limits<std::int64_t>::max(), accepted = 0;
  std::size_t stored = taken_.size();
  for (std::size_t g = taken_.size(); g-- > 0;) {
    room = std::min(room, slots_ - taken_[g] + accepted);
    const std::int64_t more = std::min(ends_[g], room - accepted);
    ends_[g] = accepted;  // what does not cover this gap: it began later
    accepted += more;
  }
  std::size_t full = 0;  // one past the last full gap
  for (std::size_t g = 0; g < stored; ++g) {
    taken_[g] += accepted - ends_[g];
    if (taken_[g] >= slots_) full = g + 1;
  }
  if (full > 0) {
    taken_.erase(taken_.begin(), taken_.begin() + static_cast<std::ptrdiff_t>(full));
    first_ += static_cast<std::uint32_t>(full);
    floor_ = first_;
  }
  return uses_ - accepted;
}

}  // namespace foregather
