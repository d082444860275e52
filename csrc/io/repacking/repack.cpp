#include "io/repacking/repack.hpp"

#include <algorithm>

#include "plan/miss.hpp"

namespace foregather {
namespace {

// The reads of one run: whole pages of the scratch file, cut into requests at row boundaries.
void read_run(Plan& out, std::int64_t first, std::int64_t last, std::int64_t max_request) {
  const Geometry& g = out.geometry;
  const std::int64_t rows = std::max<std::int64_t>(1, (max_request - 2 * kPage) / g.row_bytes);
  for (std::int64_t row = first; row < last; row += rows) {
    const std::int64_t end = std::min(last, row + rows);
    const std::int64_t lo = g.start(row) / kPage * kPage;
    const std::int64_t hi = (g.end(end - 1) + kPage - 1) / kPage * kPage;
    out.request_offset.push_back(lo);
    out.request_length.push_back(hi - lo);
    out.copy_ptr.push_back(end);
  }
}

void sweep(RepackPlan& out, std::vector<Miss>& moves, std::int64_t merge_gap,
           std::int64_t max_request) {
  std::vector<Miss> spare;
  sort_misses(moves, spare, out.source.num_rows);
  const Extents extents(out.source, {merge_gap, max_request, false});
  out.move_ptr.push_back(0);
  out.move_row.reserve(moves.size());
  out.move_index.reserve(moves.size());
  extents.for_requests(moves, [&](std::int64_t lo, std::int64_t hi, std::span<const Miss> part) {
    out.request_offset.push_back(lo);
    out.request_length.push_back(hi - lo);
    for (Miss move : part) {
      out.move_row.push_back(miss_row(move));
      out.move_index.push_back(miss_position(move));
    }
    out.move_ptr.push_back(static_cast<std::int64_t>(out.move_row.size()));
  });
}

}  // namespace

RepackPlan make_repack(const Plan& rows, std::int64_t merge_gap, std::int64_t max_request) {
  const PlanCounts counts = count_plan(rows);
  if (static_cast<std::size_t>(counts.misses) != rows.copy_row.size()) {
    throw InputError("a plan with free riders was given to repack; expected a plan by rows");
  }
  RepackPlan out;
  out.source = rows.geometry;
  Plan& scratch = out.scratch;
  const std::int64_t bytes = counts.misses * rows.geometry.row_bytes;
  scratch.geometry = {counts.misses, rows.geometry.row_bytes, 0,
                      (bytes + kPage - 1) / kPage * kPage, kPage};
  scratch.num_slots = rows.num_slots;
  scratch.num_rows = rows.num_rows;
  scratch.hit_ptr = rows.hit_ptr;
  scratch.hit_slot = rows.hit_slot;
  scratch.hit_position = rows.hit_position;
  scratch.copy_position = rows.copy_position;
  scratch.copy_slot = rows.copy_slot;
  scratch.row_bound = rows.row_bound;
  scratch.request_ptr.push_back(0);
  scratch.copy_ptr.push_back(0);
  out.run_ptr.push_back(0);
  std::vector<Miss> moves;
  moves.reserve(rows.copy_row.size());
  for (std::size_t t = 0; t < rows.num_rows.size(); ++t) {
    const auto first = rows.copy_ptr[static_cast<std::size_t>(rows.request_ptr[t])];
    const auto last = rows.copy_ptr[static_cast<std::size_t>(rows.request_ptr[t + 1])];
    for (std::int64_t c = first; c < last; ++c) {
      moves.push_back(
          make_miss(rows.copy_row[static_cast<std::size_t>(c)], static_cast<std::uint32_t>(c)));
      scratch.copy_row.push_back(static_cast<std::uint32_t>(c));
    }
    read_run(scratch, first, last, max_request);
    scratch.request_ptr.push_back(static_cast<std::int64_t>(scratch.request_offset.size()));
    out.run_ptr.push_back(last);
  }
  sweep(out, moves, merge_gap, max_request);
  return out;
}

}  // namespace foregather
