// Planner: Belady's rule for rows that are read by the block, in linear time.
//
// From the batches of a bulk (and those of the next bulk, if they are known) it makes a Plan:
// - Rows are kept by next use: the cache holds the `num_slots` rows that are wanted soonest among
//   those it held and those that were just read. With one row per block this is optimal.
// - Free riders: rows that come with a block that was read for another row compete like requested
//   rows. That is where a plan by rows beats a plan by blocks.
// - Rows without a known next use are ranked after all others, by how often they were used so far
//   (or by what `set_popularity` said, and then by use).
// - Carry-over: a planner remembers what its plans leave in the cache. Plans must be carried out in
//   the order in which they were made; call clear() if one was not.
//
// Cost: O(accesses + reads * rows per block) for a bulk and the look-ahead; work over the whole
// table only once in about half a million steps, or with narrow tables once in 14. Memory: 4 bytes
// per row, 17 per slot, 5 per access; with narrow tables 2 per row, 21 per slot; see bytes(). A
// single thread; equal input gives equal plans, whatever the tables.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/bounds/bound.hpp"
#include "plan/plan.hpp"

namespace foregather {

struct PlannerOptions {
  std::int64_t merge_gap = 0;          ///< bytes between two blocks that are read to merge them
  std::int64_t max_request = 1 << 20;  ///< bytes, a multiple of the block
  bool riders = true;                  ///< keep rows that were not asked for
  bool single = false;                 ///< one request per missed row, no sharing of blocks (Ginex)
  bool bounds = true;                  ///< compute the lower bounds
  /// Steps of a bulk and its look-ahead at most, 0: any number. Up to 14 make tables narrow: half
  /// the bytes, and about half as much time again, as slots are looked up.
  std::int64_t steps = 0;
};

class PlanMaker;

class Planner {
 public:
  Planner(const Geometry& geometry, std::int64_t num_slots, const PlannerOptions& options = {});
  ~Planner();
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  /// The plan of a bulk. Rows of a batch must be distinct and below num_rows, else InputError, and
  /// the planner is as before.
  ///
  /// @param batches rows of each batch, in the order of their outputs
  /// @param ahead the batches after these, as far as they are known; they are not planned
  /// @param fill read the first num_slots distinct rows of the bulk before the first step, as Ginex
  ///     does; the reads are part of step 0
  Plan plan(Batches batches, Batches ahead = {}, bool fill = false);

  /// What is known about rows before they are used: 0 (rare) to 4095 (popular), one per row.
  void set_popularity(std::span<const std::uint16_t> popularity);

  /// Forgets the content of the cache.
  void clear();

  /// Begins the block bound anew: those of the plans from now on add up to the fewest blocks that
  /// any policy reads for all of them, if it begins with what is in the cache now. Until this is
  /// called the first time, they do so from the first plan on.
  void begin_bound();

  /// By slot: the row the cache holds after the last plan, or kNone.
  std::span<const std::uint32_t> cached() const;

  const Geometry& geometry() const { return geometry_; }
  std::int64_t num_slots() const { return num_slots_; }
  const PlannerOptions& options() const { return options_; }

  /// The most bytes a planner uses, without the plans it returns: for `num_slots` slots and bulks
  /// of at most `accesses` rows in `steps` batches (look-ahead included), which it was told as an
  /// option; with 0 accesses 8 MiB for those that come.
  static std::int64_t bytes(const Geometry& geometry, std::int64_t num_slots, std::int64_t accesses,
                            std::int64_t steps);

 private:
  Geometry geometry_;
  std::int64_t num_slots_;
  PlannerOptions options_;
  std::unique_ptr<PlanMaker> maker_;
};

}  // namespace foregather
