// CRC32C: the checksum of every block of an array file, by the CPU's own instruction.
//
// The code is the Castagnoli polynomial, reflected, with initial and final complement (RFC 3720),
// so any tool for CRC32C can check our files: the value of "123456789" is 0xE3069283. In a block of
// 4096 bytes it finds every error within 32 neighbouring bits, of 1 to 3 single bits, and of any
// odd number of bits; of all others one in 2^32 passes. It is no defence against an adversary.
//
// x86-64 with SSE4.2 and AArch64 with the CRC extension use an instruction, found at run time;
// every other machine a table. All give the same values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace foregather {

/// CRC32C of the bytes that gave `before` (0 for none), followed by `bytes`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// The same by a table, on every machine; what machines without the instruction use.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// What crc32c() uses here: "sse4.2", "armv8" or "table".
const char* crc32c_means();

}  // namespace foregather
