#include "plan/bounds/bound.hpp"

#include <string>

#include "plan/bit_tree.hpp"
#include "plan/bounds/row_places.hpp"
#include "plan/miss.hpp"

namespace foregather {

struct Sweep::Set {
  BitTree ends;
};

Sweep::Sweep(std::size_t steps, std::int64_t slots)
    : set_(std::make_unique<Set>()), ends_(steps + 1, 0), slots_(slots) {
  set_->ends.reset(steps + 1);
}
Sweep::~Sweep() = default;

std::int64_t Sweep::begin() {
  const std::int64_t hits = ends_[step_];
  if (hits > 0) {
    ends_[step_] = 0;
    set_->ends.erase(step_);
    kept_ -= hits;
  }
  return hits;
}

void Sweep::add(std::size_t step) {
  if (ends_[step]++ == 0) set_->ends.insert(step);
  ++kept_;
}

void Sweep::end() {
  ++step_;
  while (kept_ > slots_) {
    const auto last = static_cast<std::size_t>(set_->ends.largest());
    const std::int64_t dropped = std::min(ends_[last], kept_ - slots_);
    ends_[last] -= dropped;
    kept_ -= dropped;
    if (ends_[last] == 0) set_->ends.erase(last);
  }
}

namespace {

// Steps are numbered from 1 in `last`, so that 0 can mean "not used in this bulk".
// `unit` numbers the units of rows in the batches, `known` those of other rows too, or says kNone.
template <typename Unit, typename Known>
std::int64_t sweep_units(Batches batches, std::int64_t slots, std::span<const std::uint32_t> cached,
                         std::size_t units, Unit&& unit, Known&& known, BlockScratch& scratch) {
  std::vector<std::uint32_t>& last = scratch.last;
  std::vector<std::uint32_t>& next = scratch.next;
  last.assign(units, 0);
  next.clear();
  std::vector<std::size_t> begins(batches.size() + 1, 0);
  for (std::size_t t = batches.size(); t-- > 0;) {
    for (std::uint32_t row : batches[t]) {
      std::uint32_t& used = last[unit(row)];
      if (used == t + 1) continue;  // twice in this batch
      next.push_back(used);
      used = static_cast<std::uint32_t>(t + 1);
    }
    begins[t] = next.size();
  }
  Sweep sweep(batches.size(), slots);
  for (std::uint32_t row : cached) {
    const std::size_t place = row == kNone ? kNone : known(row);
    if (place == kNone) continue;
    std::uint32_t& used = last[place];
    if (used > 0) sweep.carry(used - 1);
    used = 0;  // several rows of a block are one block
  }
  std::int64_t reads = static_cast<std::int64_t>(next.size());
  for (std::size_t t = 0; t < batches.size(); ++t) {
    reads -= sweep.begin();
    for (std::size_t k = begins[t + 1]; k < begins[t]; ++k) {
      if (next[k] > 0) sweep.add(next[k] - 1);
    }
    sweep.end();
  }
  return reads;
}

}  // namespace

void check_rows(const Geometry& geometry, std::span<const std::uint32_t> rows) {
  for (std::uint32_t row : rows) {
    if (row >= geometry.num_rows) {
      throw InputError("row " + std::to_string(row) + " was given; expected 0 to " +
                       std::to_string(geometry.num_rows - 1));
    }
  }
}

std::int64_t block_bound(const Geometry& geometry, Batches batches, std::int64_t num_slots,
                         std::span<const std::uint32_t> cached, BlockScratch& scratch) {
  const Extents extents(geometry, RequestShape{});
  const auto blocks = static_cast<std::size_t>(geometry.file_bytes / geometry.block_bytes + 1);
  const auto block = [&](std::uint32_t row) {
    return static_cast<std::size_t>(extents.block(row));
  };
  return sweep_units(batches, num_slots, cached, blocks, block, block, scratch);
}

std::int64_t row_bound(Batches batches, std::int64_t num_slots,
                       std::span<const std::uint32_t> cached) {
  BlockScratch scratch;
  RowPlaces places(count_rows(batches));
  return sweep_units(
      batches, num_slots, cached, places.size(),
      [&](std::uint32_t row) { return places.give(row); },
      [&](std::uint32_t row) { return places.find(row); }, scratch);
}

}  // namespace foregather
