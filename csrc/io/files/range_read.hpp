// Range read: a range of a file into memory, in pieces that several threads read and check.
//
// A piece is small enough to be in the core's cache still when it is checked, right after it was
// read and by the same thread, so memory is passed over once, while other threads read.
//
// Contract:
// - With sums, every block that the range touches is read whole and checked before the call is
//   over; blocks that the range cuts go through a separate buffer. The range must lie within the
//   payload, else InputError.
// - Interrupted and refused reads are repeated and short ones continued, as by all readers. A file
//   that cannot be read or ends early is a StorageError, a block that differs a FormatError; the
//   content of `into` is unspecified then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/checksums/block_sums.hpp"
#include "io/faults.hpp"

namespace foregather {

/// @param descriptor the file, open for buffered reads
/// @param name what errors call the file
/// @param position the first byte of the file to read
/// @param sums what the bytes must be; null: unchecked
/// @param threads the most that read at once (a thread is not woken for less than 2 MiB); 0: as
/// many as there are cores, up to four, which keep a fast disk busy
/// @param faults tests only
void read_range(int descriptor, const std::string& name, std::int64_t position,
                std::span<std::byte> into, const BlockSums* sums, int threads = 0,
                Faults* faults = nullptr);

}  // namespace foregather
