// Gather: copies chosen rows of a matrix in memory, one after the other, into the caller's buffer.
//
// out row k = row ids[k] of the matrix. Ids may repeat and come in any order; all are checked
// before the first byte is written, and the InputError names the first position that is out of
// range. The matrix may be memory-mapped; the output may be pinned. Outputs never overlap the
// matrix.
//
// Three forms: bytes as they are (any dtype), int8 with one float32 scale per column (x = q *
// scale, one rounding, as NumPy computes it) and binary16 to binary32 (exact). Threads take
// contiguous parts of the output, so the result does not depend on their number.
//
// How: random rows miss every cache, and the cost is waiting. So the first lines of a row are
// prefetched a dozen rows ahead. Stores that bypass the caches were tried and are slower for
// outputs of the size of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.hpp"

namespace foregather {

/// A row-major matrix of num_rows rows of row_bytes bytes each; a view.
struct Rows {
  const std::byte* data;
  std::int64_t num_rows;
  std::size_t row_bytes;
};

/// Copies rows as bytes. `out` has ids.size() * rows.row_bytes bytes. Id is std::uint32_t or
/// std::int64_t; threads <= 0 means default_threads(). Throws InputError for an id outside
/// [0, num_rows) or a wrong size of `out`; then nothing was written.
template <typename Id>
void gather_rows(const Rows& rows, std::span<const Id> ids, std::span<std::byte> out, int threads);

/// int8 rows times one factor per column: out[k * d + j] = rows[ids[k]][j] * scale[j] with
/// d = scale.size() = row_bytes. Otherwise as gather_rows.
template <typename Id>
void gather_scaled(const Rows& rows, std::span<const float> scale, std::span<const Id> ids,
                   std::span<float> out, int threads);

/// binary16 rows as float32; row_bytes is even. Otherwise as gather_rows.
template <typename Id>
void gather_half(const Rows& rows, std::span<const Id> ids, std::span<float> out, int threads);

}  // namespace foregather
