// Spool: the kernels of external sorting and renumbering.
//
// A record is `record_bytes` bytes that begin with an unsigned little-endian key of 4 or 8 bytes;
// the rest is payload the kernels only move. Records are cut into buckets by key range: bucket b
// holds the keys k with (k - base) >> shift == b. Partitioning is stable (records of a bucket keep
// their order), so its result does not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace foregather {

/// The layout of one record.
struct RecordLayout {
  std::size_t record_bytes;  ///< size of a record, at least key_bytes
  std::size_t key_offset;    ///< where in the record the key starts
  std::size_t key_bytes;     ///< 4 or 8
};

/// Copies `records` to `out` grouped by bucket, ascending; offsets[b] .. offsets[b + 1] become the
/// record positions of bucket b. offsets has one entry more than there are buckets.
///
/// Cost: two passes over the records; extra memory threads x buckets x 8 bytes.
/// Throws InputError when a key lies below `base` or beyond the last bucket.
void partition_records(std::span<const std::byte> records, RecordLayout layout, std::uint64_t base,
                       int shift, std::span<std::int64_t> offsets, std::span<std::byte> out,
                       int threads);

/// Concatenates data[starts[i] .. starts[i] + lengths[i]) into `out`, whose size is the sum of the
/// lengths. Throws InputError when a slice leaves `data` or the sizes do not add up.
void gather_slices(std::span<const std::byte> data, std::span<const std::int64_t> starts,
                   std::span<const std::int64_t> lengths, std::span<std::byte> out);

}  // namespace foregather
