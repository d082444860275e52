// Repack: one sequential sweep of the feature file into a scratch file in the order of use.
//
// Where a bulk wants many rows from all over the file, reading the file once from front to back and
// writing the rows down batch by batch can be cheaper than reading them at random. The cache works
// as in a plan by rows: what a batch does not find there is a miss, and lies in the batch's run.
//
// The scratch file is a dense array of rows: run 0, run 1, ..., the rows of a run ascending. It is
// a feature file like any other, so the second half of the work is an ordinary Plan over it.
//
// To carry out a RepackPlan:
// 1. Make a scratch file of scratch.geometry.file_bytes bytes (payload 0, tail of zeros) on a disk
//    with room for it; leave no name behind (O_TMPFILE, or unlink once it is open).
// 2. For each sweep request r, ascending: read request_length[r] bytes at request_offset[r] of the
//    feature file. For m in [move_ptr[r], move_ptr[r + 1]): copy the row_bytes of row move_row[m]
//    (which lies wholly inside the request) to byte move_index[m] * row_bytes of the scratch file.
//    A row may have several moves, one for each run that has it. Moves of one run come in ascending
//    move_index, without gaps, so a run is written append-only: a buffer for each run suffices, of
//    any size; run t occupies indices [run_ptr[t], run_ptr[t + 1]).
// 3. Run `scratch` on the scratch file with any executor of plans. Its outputs are the outputs of
//    the bulk, and it leaves in the slots what the planner believes is there; nothing more is read
//    from the feature file. Steps may begin as soon as the sweep is over, not before.
// 4. Close the scratch file: its space is free again.
// Bytes: the sweep reads sum(request_length), writes num_moves * row_bytes (rounded up to a page at
// the end), and the plan reads what its requests say.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace foregather {

struct RepackPlan {
  Geometry source;                                           ///< of the feature file
  std::vector<std::int64_t> request_offset, request_length;  ///< [R] the sweep, ascending, disjoint
  std::vector<std::int64_t> move_ptr;                        ///< [R + 1]
  std::vector<std::uint32_t> move_row, move_index;           ///< rows ascend; see 2. above
  std::vector<std::int64_t> run_ptr;                         ///< [S + 1]
  Plan scratch;                                              ///< over the scratch file
};

/// Turns a plan by rows (Planner with riders = false) into a sweep and a plan over the scratch
/// file. The slots it uses are those of `rows`. Riders or a repeated row in a step are an
/// InputError.
///
/// @param merge_gap bytes that the sweep may read and throw away rather than start a new request
RepackPlan make_repack(const Plan& rows, std::int64_t merge_gap, std::int64_t max_request);

}  // namespace foregather
