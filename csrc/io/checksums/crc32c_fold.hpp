// Fold: CRC32C by two units of the core at once, carry-less multiplication and the CRC instruction.
// Private to crc32c.
#pragma once

#include <cstdint>
#include <vector>

#include "io/checksums/crc32c.hpp"

namespace foregather {

/// A polynomial times x. Reflected: the lowest bit is the coefficient of the highest power.
constexpr std::uint32_t times_x(std::uint32_t value) {
  return (value >> 1) ^ ((value & 1) ? 0x82F63B78u : 0);
}

/// Those that this CPU has, the fastest last.
std::vector<Crc32cWay> fold_ways();

}  // namespace foregather
