#include "base/cpu_features.hpp"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace foregather {
namespace {

#if defined(__x86_64__)
constexpr bool has_bit(std::uint32_t word, int bit) { return (word >> bit & 1) != 0; }

// Which registers the operating system keeps; only asked where OSXSAVE says that the instruction
// exists. Bits 1 and 2: of 128 and 256 bits; 5 to 7: of 512, and masks.
std::uint32_t kept_registers() {
  std::uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Bits as in Intel's manual, volume 2A, CPUID: leaf 1, and leaf 7 with subleaf 0.
CpuFeatures ask() {
  CpuFeatures found;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return found;
  found.intel = b == 0x756e6547U;  // "Genu", of "GenuineIntel"
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return found;
  found.pclmul = has_bit(c, 1);
  found.sse42 = has_bit(c, 20);
  if (!has_bit(c, 27) || !has_bit(c, 28)) return found;
  const std::uint32_t kept = kept_registers();
  if ((kept & 0x06U) != 0x06U) return found;
  found.f16c = has_bit(c, 29);
  found.fma = has_bit(c, 12);
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return found;
  found.avx2 = has_bit(b, 5);
  found.avx512f = has_bit(b, 16) && (kept & 0xe6U) == 0xe6U;
  found.vpclmulqdq = has_bit(c, 10);
  return found;
}
#else
CpuFeatures ask() { return {}; }
#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures found = ask();
  return found;
}

}  // namespace foregather
