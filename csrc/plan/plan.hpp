// Plan: which bytes move when, for one bulk of minibatches; a value without state.
//
// A step is one minibatch. In step t, first all hits of t are copied from their slots to the
// output, then the rows that the requests of t bring are copied to the output, to a slot, or both.
// A slot written in a step may be one that a hit of the same step reads (hits come first), never
// one that another copy of the same step writes. Every output row occurs exactly once over hits
// and copies. After a step, a slot holds the row last written to it; plans run back to back as if
// they were one, so the cache is carried over.
//
// Requests of a step ascend by offset; offset and length are multiples of 4096 inside the file, and
// a request covers every row that is copied out of it. Our planner's requests are disjoint, except
// in one case: a run of missed rows longer than the largest request, cut where a row lies across
// the cut. Policies that read each row by itself (Ginex) may read a page twice, so disjointness is
// a property of good plans and not a rule. Nothing here says how far ahead requests may be made:
// reading early is safe, copying early is not.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.hpp"

namespace foregather {

inline constexpr std::uint32_t kNone = 0xffffffffu;
inline constexpr std::int64_t kPage = 4096;  ///< what offsets and lengths are multiples of

struct Geometry {            ///< where rows lie in their file
  std::int64_t num_rows;     ///< below 2^32 - 1
  std::int64_t row_bytes;    ///< of the stored dtype
  std::int64_t payload;      ///< byte of row 0 in the file
  std::int64_t file_bytes;   ///< size of the file; requests end at or before it
  std::int64_t block_bytes;  ///< unit of reading, a multiple of 4096, counted from byte 0

  std::int64_t start(std::int64_t row) const { return payload + row * row_bytes; }
  std::int64_t end(std::int64_t row) const { return start(row) + row_bytes; }
  bool operator==(const Geometry&) const = default;
};

struct Plan {  ///< S steps, R requests
  Geometry geometry;
  std::int64_t num_slots;
  std::vector<std::int64_t> num_rows;                        ///< [S] rows of each output
  std::vector<std::int64_t> hit_ptr;                         ///< [S + 1]
  std::vector<std::uint32_t> hit_slot, hit_position;         ///< slot -> output row
  std::vector<std::int64_t> request_ptr;                     ///< [S + 1]
  std::vector<std::int64_t> request_offset, request_length;  ///< [R] bytes
  std::vector<std::int64_t> copy_ptr;                        ///< [R + 1]
  std::vector<std::uint32_t> copy_row;                       ///< row id, ascending in a request
  std::vector<std::uint32_t> copy_position;                  ///< output row, or kNone: a free rider
  std::vector<std::uint32_t> copy_slot;                      ///< slot it is kept in, or kNone
  /// Fewest rows that any policy reads for this bulk alone if it reads rows and begins with what
  /// the cache holds before it; -1: not known. Not to be added up: see running_bound.hpp.
  std::int64_t row_bound = -1;
  /// What this bulk adds to the fewest blocks that any policy reads, from the plan with which the
  /// bound began to this one; only the sum over these is a bound. -1: not known.
  std::int64_t block_bound = -1;

  std::int64_t steps() const { return static_cast<std::int64_t>(num_rows.size()); }
};

struct PlanCounts {
  std::int64_t rows = 0;          ///< over all outputs: hits + misses
  std::int64_t hits = 0;          ///< rows copied from slots
  std::int64_t misses = 0;        ///< rows copied from requests to outputs
  std::int64_t riders = 0;        ///< rows kept although their batch did not ask for them
  std::int64_t kept = 0;          ///< rows written to slots, riders included
  std::int64_t requests = 0;      ///< reads
  std::int64_t blocks = 0;        ///< blocks those reads touch
  std::int64_t bytes = 0;         ///< bytes they move
  std::int64_t useful_bytes = 0;  ///< bytes of the rows that are copied
  std::int64_t longest = 0;       ///< bytes of the longest request
};

/// Throws InputError unless rows fit in the file and sizes are what the fields above say.
void check_geometry(const Geometry& geometry);

/// Throws InputError, one sentence, unless the plan keeps every rule above that can be seen without
/// knowing the batches: a plan that passes never makes an executor leave its memory or its file.
void check_plan(const Plan& plan);

PlanCounts count_plan(const Plan& plan);

}  // namespace foregather
