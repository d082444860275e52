#include "plan/planner.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "plan/plan_maker.hpp"

namespace foregather {
namespace {

// Narrow words where all steps have room in them: more would be refused.
bool narrow(std::int64_t steps) { return steps > 0 && steps <= std::int64_t{NarrowWord::kNever}; }

void check_options(const Geometry& geometry, std::int64_t num_slots,
                   const PlannerOptions& options) {
  check_geometry(geometry);
  if (num_slots < 0 || num_slots >= static_cast<std::int64_t>(kNone)) {
    throw InputError(std::to_string(num_slots) + " slots were given; expected 0 to 2^32 - 2");
  }
  if (options.merge_gap < 0 || options.max_request < geometry.block_bytes ||
      options.max_request % geometry.block_bytes != 0) {
    throw InputError("requests of at most " + std::to_string(options.max_request) +
                     " bytes with gaps of " + std::to_string(options.merge_gap) +
                     " were given; expected whole blocks of " +
                     std::to_string(geometry.block_bytes) + " bytes and a gap of 0 or more");
  }
  const std::int64_t most = WideWord::kNever - 2;
  if (options.steps < 0 || options.steps > most) {
    throw InputError("plans of up to " + std::to_string(options.steps) +
                     " steps were asked for; expected 0 (any number) to " + std::to_string(most));
  }
}

std::unique_ptr<PlanMaker> make_maker(const Geometry& geometry, std::int64_t given_slots,
                                      const PlannerOptions& options) {
  // more could never be filled, or told from a row's word
  const std::int64_t slots =
      std::min({given_slots, geometry.num_rows, std::int64_t{WideWord::kHeld}});
  if (narrow(options.steps)) {
    return std::make_unique<PlanMakerOf<NarrowWord>>(geometry, given_slots, slots, options);
  }
  return std::make_unique<PlanMakerOf<WideWord>>(geometry, given_slots, slots, options);
}

}  // namespace

Planner::Planner(const Geometry& geometry, std::int64_t num_slots, const PlannerOptions& options)
    : geometry_(geometry), num_slots_(num_slots), options_(options) {
  check_options(geometry, num_slots, options);
  maker_ = make_maker(geometry, num_slots, options);
}
Planner::~Planner() = default;

Plan Planner::plan(Batches batches, Batches ahead, bool fill) {
  const std::size_t horizon = batches.size() + ahead.size();
  const std::size_t most = options_.steps > 0 ? static_cast<std::size_t>(options_.steps)
                                              : std::size_t{WideWord::kNever} - 2;
  if (horizon > most) {
    throw InputError(std::to_string(horizon) + " batches were given; expected at most " +
                     std::to_string(most) + " in a bulk and its look-ahead");
  }
  return maker_->plan(batches, ahead, fill);
}

void Planner::set_popularity(std::span<const std::uint16_t> popularity) {
  if (static_cast<std::int64_t>(popularity.size()) != geometry_.num_rows) {
    throw InputError("popularity has " + std::to_string(popularity.size()) +
                     " entries; expected one for each of " + std::to_string(geometry_.num_rows) +
                     " rows");
  }
  maker_->set_popularity(popularity);
}

void Planner::clear() { maker_->clear(); }
void Planner::begin_bound() { maker_->begin_bound(); }
std::span<const std::uint32_t> Planner::cached() const { return maker_->cached(); }

std::int64_t Planner::bytes(const Geometry& geometry, std::int64_t num_slots, std::int64_t accesses,
                            std::int64_t steps) {
  check_geometry(geometry);
  const auto rows = static_cast<std::size_t>(geometry.num_rows);
  const auto slots = static_cast<std::size_t>(std::min(num_slots, geometry.num_rows));
  const auto used = static_cast<std::size_t>(accesses), batches = static_cast<std::size_t>(steps);
  using Words = Buffer<std::uint32_t>;
  std::size_t total = narrow(steps) ? RowTable<NarrowWord>::bytes(rows, slots)
                                    : RowTable<WideWord>::bytes(rows, slots);
  // what filled each slot; next uses; the misses of one batch twice, in vectors that double; the
  // buckets and their tree; the row bound's ends
  total += Words::bytes_for(slots) + Words::bytes_for(used + used / 4);
  total += used / std::max<std::size_t>(batches, 1) * 32;
  total += Buckets::bytes(batches + kRanks, slots) + 17 * batches;
  // where memory is divided before accesses are known: for them, and for plans that wait
  total += accesses == 0 ? std::size_t{8} << 20 : std::size_t{64} << 10;
  return static_cast<std::int64_t>(total) + BlockBound::bytes(geometry);
}

}  // namespace foregather
