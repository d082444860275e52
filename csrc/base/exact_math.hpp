// Exact math: logarithm and exponential whose bits are the same on every machine.
//
// Samplers compare keys -log(u) / w, so the last bit of a logarithm can decide a sample. libm does
// not promise that bit; these functions do: they use only + - * / (which IEEE 754 defines exactly)
// and bit operations, and the core is compiled without contraction to fused multiply-adds.
//
// exact_log writes x = 2^k m with m in [sqrt(1/2), sqrt(2)] and sums log m = 2 artanh(s),
// s = (m - 1) / (m + 1), |s| < 0.172: eleven terms after the first leave less than 2^-60.
// inclusion writes x = k log 2 + r, |r| < 0.35, and sums fourteen terms of exp(-r) - 1.
// Errors, relative: exact_log below 2^-51, inclusion below 2^-50. The tests compare both with
// libm in long double.
#pragma once

#include <bit>
#include <cstdint>

#include "base/random.hpp"

namespace foregather {

namespace detail {
// log 2 in two parts; the first has 32 bits, so that k times it is exact for every exponent k.
inline constexpr double kLog2High = 0x1.62e42feep-1;
inline constexpr double kLog2Low = 0x1.a39ef35793c76p-33;
}  // namespace detail

/// Natural logarithm of a positive, normal, finite x.
constexpr double exact_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto k = static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (m > 0x1.6a09e667f3bcdp0) {  // sqrt(2)
    m *= 0.5;
    k += 1;
  }
  const double f = m - 1;  // exact: m is within a factor of two of 1
  const double s = f / (2 + f);
  const double z = s * s;
  double sum = 0;
  for (int term = 11; term >= 1; --term) sum = z * (1.0 / (2 * term + 1) + sum);
  const double twice = s + s;
  return k * detail::kLog2High + (twice + (twice * sum + k * detail::kLog2Low));
}

/// 1 - exp(-x) for x >= 0 (infinity gives 1): the probability that an exponential of rate 1 is
/// below x.
constexpr double inclusion(double x) {
  if (!(x < 64)) return 1;
  const auto k = static_cast<std::int64_t>(x * 0x1.71547652b82fep0 + 0.5);  // x / log 2, rounded
  const auto whole = static_cast<double>(k);
  const double y = -((x - whole * detail::kLog2High) - whole * detail::kLog2Low);
  double sum = 0;  // (exp(y) - 1) / y - 1
  for (int term = 14; term >= 2; --term) sum = y / term * (1 + sum);
  const double less = y + y * sum;
  if (k == 0) return -less;
  const double power = std::bit_cast<double>(static_cast<std::uint64_t>(1023 - k) << 52);  // 2^-k
  return 1 - power * (1 + less);
}

/// A double strictly between 0 and 1 from the top 52 bits: odd multiples of 2^-53.
constexpr double to_open_unit(std::uint64_t bits) {
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1.0p-52;
}

/// An exponential of rate 1 from 64 uniform bits; in (2^-54, 37).
constexpr double exponential(std::uint64_t bits) { return -exact_log(to_open_unit(bits)); }

}  // namespace foregather
