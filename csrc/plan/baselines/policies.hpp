// Policies: planners to compare with; each makes the same Plan, so the same executor runs them.
//
// - OnlinePlanner decides like a cache that does not know the future: row after row, in the order
//   of the batches. LRU, CLOCK, SIEVE and S3-FIFO keep every row they read; a static planner reads
//   a given hot set once, in its first step, and never changes it.
// - PagePlanner knows the future and applies Belady's rule to whole blocks: a block takes as many
//   slots as rows can start in it.
// Both carry their cache over from bulk to bulk, and work in O(accesses + rows read).
// Contract: as for Planner::plan. A batch's hits count before its misses are inserted.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "plan/bounds/bound.hpp"
#include "plan/plan.hpp"
#include "plan/planner.hpp"

namespace foregather {

enum class OnlinePolicy { kStatic, kLru, kClock, kSieve, kS3Fifo };

/// "static", "lru", "clock", "sieve" or "s3fifo" (InputError for another word).
OnlinePolicy parse_policy(const std::string& name);

class OnlinePlanner {
 public:
  /// @param hot the rows of a static cache, at most num_slots; empty for the others
  OnlinePlanner(const Geometry& geometry, std::int64_t num_slots, OnlinePolicy policy,
                const PlannerOptions& options, std::span<const std::uint32_t> hot = {});
  ~OnlinePlanner();
  OnlinePlanner(const OnlinePlanner&) = delete;
  OnlinePlanner& operator=(const OnlinePlanner&) = delete;
  Plan plan(Batches batches);

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

class PagePlanner {
 public:
  PagePlanner(const Geometry& geometry, std::int64_t num_slots, const PlannerOptions& options);
  ~PagePlanner();
  PagePlanner(const PagePlanner&) = delete;
  PagePlanner& operator=(const PagePlanner&) = delete;
  Plan plan(Batches batches, Batches ahead = {});

  /// As Planner::bytes.
  static std::int64_t bytes(const Geometry& geometry, std::int64_t num_slots, std::int64_t accesses,
                            std::int64_t steps);

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace foregather
