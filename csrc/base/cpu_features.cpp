#include "base/cpu_features.hpp"

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace foregather {
namespace {

#if defined(__x86_64__)
constexpr bool has_bit(std::uint32_t word, int bit) { return (word >> bit & 1) != 0; }

// Whether the operating system keeps registers of 128 and 256 bits; only asked where OSXSAVE says
// that the instruction exists.
bool keeps_wide_registers() {
  std::uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 6U) == 6U;
}

// Bits as in Intel's manual, volume 2A, CPUID: leaf 1, and leaf 7 with subleaf 0.
CpuFeatures ask() {
  CpuFeatures found;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return found;
  found.pclmul = has_bit(c, 1);
  found.sse42 = has_bit(c, 20);
  if (!has_bit(c, 27) || !has_bit(c, 28) || !keeps_wide_registers()) return found;
  found.f16c = has_bit(c, 29);
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return found;
  found.avx2 = has_bit(b, 5);
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
