// CRC32C: the checksum of every block of an array file, by the CPU's own instructions.
//
// The code is the Castagnoli polynomial, reflected, with initial and final complement (RFC 3720),
// so any tool for CRC32C can check our files: the value of "123456789" is 0xE3069283. In a block of
// 4096 bytes it finds every error within 32 neighbouring bits, of 1 to 3 single bits, and of any
// odd number of bits; of all others one in 2^32 passes. It is no defence against an adversary.
//
// x86-64 with SSE4.2 and AArch64 with the CRC extension use an instruction, found at run time;
// every other machine uses a table. x86-64 with AVX2 also folds a part of each block by carry-less
// multiplication, which other units of the core do at the same time. All give the same values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace foregather {

/// CRC32C of the bytes that gave `before` (0 for none), followed by `bytes`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

struct Crc32cWay {
  const char* name;
  /// Takes and returns the register, which is the complement of the value.
  std::uint32_t (*run)(std::uint32_t state, const std::byte* bytes, std::size_t size);
};

/// Every way that this machine has, for tests; crc32c() uses the last one, the fastest.
std::span<const Crc32cWay> crc32c_ways();

/// Its name: "vpclmulqdq", "pclmulqdq", "sse4.2", "armv8" or "table".
const char* crc32c_means();

}  // namespace foregather
