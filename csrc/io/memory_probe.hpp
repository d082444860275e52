// Memory probe: how many random cache lines per second the memory delivers, the yardstick of
// sampling.
//
// Reads one 8-byte word of line index[i] (64 bytes each) of `lines`, for all i, asking for line
// index[i + distance] beforehand. Returns the sum, so that no read can be left out.
#pragma once

#include <cstdint>
#include <span>

namespace foregather {

/// Sum of the first words of the lines read; the work is split over `threads` threads.
std::uint64_t read_lines(std::span<const std::uint64_t> words, std::span<const std::uint32_t> index,
                         int distance, int threads);

}  // namespace foregather
