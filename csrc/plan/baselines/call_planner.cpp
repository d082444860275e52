#include "plan/baselines/call_planner.hpp"

#include <algorithm>
#include <bit>
#include <string>

#include "base/types.hpp"
#include "graph/check.hpp"

namespace foregather {

// ---- which rows are cached ----------------------------------------------------------------------

SieveSlots::SieveSlots(std::int64_t num_slots) : num_slots_(static_cast<std::uint32_t>(num_slots)) {
  if (num_slots < 0 || num_slots >= kNone) {
    throw InputError("num_slots is " + std::to_string(num_slots) + ", expected 0 to 2^32 - 2");
  }
  const auto count = static_cast<std::size_t>(num_slots);
  for (auto* list : {&row_, &newer_, &older_, &stamp_}) list->resize(count);
  visited_.resize(count);
  // At most half full, so that searches are short: 2 to 4 places of 4 bytes per slot.
  table_.assign(std::bit_ceil(2 * count + 1), kNone);
}

std::int64_t SieveSlots::memory_bytes() const {
  return static_cast<std::int64_t>(17 * row_.size() + 4 * table_.size());
}

std::size_t SieveSlots::home(std::uint32_t row) const {
  // Fibonacci hashing: consecutive rows, which are common, are spread over the table.
  const std::uint64_t mixed = row * std::uint64_t{0x9E3779B97F4A7C15};
  return static_cast<std::size_t>(mixed >> 32) & (table_.size() - 1);
}

std::uint32_t SieveSlots::find(std::uint32_t row) {
  for (std::size_t at = home(row); table_[at] != kNone; at = (at + 1) & (table_.size() - 1)) {
    const std::uint32_t slot = table_[at];
    if (row_[slot] != row) continue;
    visited_[slot] = 1;
    return slot;
  }
  return kNone;
}

std::uint32_t SieveSlots::insert(std::uint32_t row) {
  if (given_ == num_slots_) return kNone;
  const std::uint32_t slot = used_ < num_slots_ ? used_++ : evict();
  ++given_;
  row_[slot] = row;
  visited_[slot] = 0;
  stamp_[slot] = call_;
  link_newest(slot);
  std::size_t at = home(row);
  while (table_[at] != kNone) at = (at + 1) & (table_.size() - 1);
  table_[at] = slot;
  return slot;
}

// Moves the hand to a row that was not visited; given_ < num_slots_, so there is one.
std::uint32_t SieveSlots::evict() {
  std::uint32_t at = hand_ == kNone ? oldest_ : hand_;
  while (visited_[at] != 0 || stamp_[at] == call_) {
    visited_[at] = 0;
    at = newer_[at] == kNone ? oldest_ : newer_[at];
  }
  hand_ = newer_[at];
  unlink(at);
  forget(row_[at]);
  return at;
}

void SieveSlots::unlink(std::uint32_t slot) {
  const std::uint32_t newer = newer_[slot], older = older_[slot];
  (older == kNone ? oldest_ : newer_[older]) = newer;
  (newer == kNone ? newest_ : older_[newer]) = older;
}

void SieveSlots::link_newest(std::uint32_t slot) {
  newer_[slot] = kNone;
  older_[slot] = newest_;
  (newest_ == kNone ? oldest_ : newer_[newest_]) = slot;
  newest_ = slot;
}

// Removes a row from the table and closes the hole, so that searches need no tombstones.
void SieveSlots::forget(std::uint32_t row) {
  const std::size_t mask = table_.size() - 1;
  std::size_t hole = home(row);
  while (row_[table_[hole]] != row) hole = (hole + 1) & mask;
  for (std::size_t at = (hole + 1) & mask; table_[at] != kNone; at = (at + 1) & mask) {
    // An entry may move back if the hole lies between its home and its place.
    if (((at - home(row_[table_[at]])) & mask) >= ((at - hole) & mask)) {
      table_[hole] = table_[at];
      hole = at;
    }
  }
  table_[hole] = kNone;
}

// ---- what is read -------------------------------------------------------------------------------

CallPlanner::CallPlanner(const Geometry& geometry, std::int64_t num_slots, std::int64_t gap_bytes,
                         std::int64_t max_request)
    : geometry_(geometry),
      gap_bytes_(gap_bytes),
      max_request_(max_request),
      num_slots_(num_slots),
      slots_(num_slots) {
  check_geometry(geometry_);
  if (gap_bytes < 0 || max_request <= 0) {
    throw InputError("the gap is " + std::to_string(gap_bytes) + " bytes and the largest request " +
                     std::to_string(max_request) + "; expected at least 0 and 1");
  }
}

template <typename Id>
CallPlan CallPlanner::plan(std::span<const Id> ids) {
  const std::int64_t bad = check_ids<Id>(ids, geometry_.num_rows, 1);
  if (bad >= 0) {
    throw InputError("ids holds " + std::to_string(ids[static_cast<std::size_t>(bad)]) +
                     " at position " + std::to_string(bad) + ", but there are " +
                     std::to_string(geometry_.num_rows) + " rows (ids are 0 to N-1)");
  }
  if (ids.size() >= kNone) throw InputError("one call asks for 2^32 - 1 rows or more; split it");
  std::vector<std::uint64_t> order(ids.size());  // row, then position
  for (std::size_t k = 0; k < ids.size(); ++k) {
    order[k] = static_cast<std::uint64_t>(ids[k]) << 32 | k;
  }
  std::sort(order.begin(), order.end());
  std::vector<std::uint32_t> rows, positions;
  rows.reserve(ids.size());
  positions.reserve(ids.size());
  CallPlan answer;
  for (const std::uint64_t key : order) {
    const auto row = static_cast<std::uint32_t>(key >> 32);
    if (!rows.empty() && rows.back() == row) continue;
    rows.push_back(row);
    positions.push_back(static_cast<std::uint32_t>(key));
  }
  if (rows.size() < ids.size()) {
    answer.inverse.resize(ids.size());
    std::uint32_t at = 0;
    for (const std::uint64_t key : order) {
      if (rows[at] != static_cast<std::uint32_t>(key >> 32)) ++at;
      answer.inverse[static_cast<std::uint32_t>(key)] = at;
    }
    for (std::size_t k = 0; k < rows.size(); ++k) positions[k] = static_cast<std::uint32_t>(k);
  }
  auto plan = std::make_shared<Plan>();
  plan_rows(*plan, rows, positions);
  answer.plan = std::move(plan);
  return answer;
}

void CallPlanner::plan_rows(Plan& plan, std::span<const std::uint32_t> rows,
                            std::span<const std::uint32_t> positions) {
  plan.geometry = geometry_;
  plan.num_slots = num_slots_;
  slots_.begin();
  std::vector<std::uint32_t> missed;  // indices into rows; all hits are marked before any eviction
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const std::uint32_t slot = slots_.find(rows[k]);
    if (slot == kNone) {
      missed.push_back(static_cast<std::uint32_t>(k));
    } else {
      plan.hit_slot.push_back(slot);
      plan.hit_position.push_back(positions[k]);
    }
  }
  plan.copy_ptr = {0};
  for (const std::uint32_t k : missed) {
    add_copy(plan, rows[k], positions[k]);
    plan.copy_slot.push_back(slots_.insert(rows[k]));
  }
  if (!missed.empty()) plan.copy_ptr.push_back(static_cast<std::int64_t>(missed.size()));
  plan.num_rows = {static_cast<std::int64_t>(rows.size())};
  plan.hit_ptr = {0, static_cast<std::int64_t>(plan.hit_slot.size())};
  plan.request_ptr = {0, static_cast<std::int64_t>(plan.request_offset.size())};
}

// Adds a row to the last request if that is near enough, or begins another.
void CallPlanner::add_copy(Plan& plan, std::uint32_t row, std::uint32_t position) const {
  const std::int64_t first = geometry_.payload + row * geometry_.row_bytes;
  const std::int64_t block = geometry_.block_bytes;
  const std::int64_t begin = first / block * block;
  const std::int64_t end =
      std::min((first + geometry_.row_bytes + block - 1) / block * block, geometry_.file_bytes);
  bool joined = false;
  if (!plan.request_offset.empty()) {
    const std::int64_t from = plan.request_offset.back();
    const std::int64_t until = from + plan.request_length.back();
    joined = end <= until || (begin - until <= gap_bytes_ && end - from <= max_request_);
    if (joined) plan.request_length.back() = std::max(end, until) - from;
  }
  if (!joined) {
    if (!plan.request_offset.empty()) {
      plan.copy_ptr.push_back(static_cast<std::int64_t>(plan.copy_row.size()));
    }
    plan.request_offset.push_back(begin);
    plan.request_length.push_back(end - begin);
  }
  plan.copy_row.push_back(row);
  plan.copy_position.push_back(position);
}

template CallPlan CallPlanner::plan(std::span<const std::uint32_t>);
template CallPlan CallPlanner::plan(std::span<const std::int64_t>);

}  // namespace foregather
