// Number: the four ways in which values of a model are stored, and how they are added up.
//
// float32 and float64 are added up as they are; bfloat16 and float16 as float32, so that a sum is
// rounded once, when it is stored, and may pass beyond the range of float16 on its way. Rounding is
// to nearest even; what is too large for float16 becomes infinity, and a NaN stays one.
//
// Lanes are eight numbers that are computed together. They are the compiler's vectors, not a
// processor's: the same operations in the same order with and without AVX2, so the same bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/half.hpp"

// GCC inlines a function for F16C into one for AVX2 and F16C; clang refuses to.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOREGATHER_F16C 1
#include <immintrin.h>
#else
#define FOREGATHER_F16C 0
#endif

namespace foregather::nn {

enum class Number : std::int32_t { kFloat32 = 0, kFloat64 = 1, kBfloat16 = 2, kFloat16 = 3 };

struct Bfloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

inline constexpr std::int64_t kLanes = 8;

namespace detail {
using Floats [[gnu::vector_size(32)]] = float;
using Doubles [[gnu::vector_size(64)]] = double;
using Ints [[gnu::vector_size(32)]] = std::int32_t;
using Words [[gnu::vector_size(32)]] = std::uint32_t;
using Longs [[gnu::vector_size(64)]] = std::int64_t;
using Shorts [[gnu::vector_size(16)]] = std::uint16_t;

template <typename T>
struct Summed {
  using Type = float;
};
template <>
struct Summed<double> {
  using Type = double;
};
template <typename A>
struct LanesOf {
  using Type = Floats;
  using Mask = Ints;
};
template <>
struct LanesOf<double> {
  using Type = Doubles;
  using Mask = Longs;
};
}  // namespace detail

/// What values stored as T are added up in.
template <typename T>
using Sum = typename detail::Summed<T>::Type;
/// Eight of what values stored as T are added up in.
template <typename T>
using Lanes = typename detail::LanesOf<Sum<T>>::Type;
/// What a comparison of Lanes<T> gives: all bits or none.
template <typename T>
using Mask = typename detail::LanesOf<Sum<T>>::Mask;

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(Bfloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
inline float widen(Float16 x) { return from_half(x.bits); }

inline void narrow(float x, float& out) { out = x; }
inline void narrow(double x, double& out) { out = x; }
inline void narrow(float x, Bfloat16& out) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  out.bits = static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
}
inline void narrow(float x, Float16& out) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const std::uint16_t beyond = magnitude > 0x7F800000 ? 0x7E00 : 0x7C00;
  // From 65520 on the nearest is infinity; to_half is for what lies below.
  out.bits = magnitude >= 0x477FF000 ? static_cast<std::uint16_t>(sign | beyond) : to_half(x);
}

/// Reads eight stored values, which need no alignment. By reference, as lanes have no place in the
/// calling convention of processors without AVX.
[[gnu::always_inline]] inline void load(const float* from, detail::Floats& to) {
  std::memcpy(&to, from, sizeof to);
}
[[gnu::always_inline]] inline void load(const double* from, detail::Doubles& to) {
  std::memcpy(&to, from, sizeof to);
}
[[gnu::always_inline]] inline void load(const Bfloat16* from, detail::Floats& to) {
  detail::Shorts bits;
  std::memcpy(&bits, from, sizeof bits);
  to = (detail::Floats)(__builtin_convertvector(bits, detail::Ints) << 16);  // the same bits
}
[[gnu::always_inline]] inline void load(const Float16* from, detail::Floats& to) {
  detail::Shorts bits;
  std::memcpy(&bits, from, sizeof bits);
  const detail::Ints half = __builtin_convertvector(bits, detail::Ints);
  // As from_half, lane by lane.
  const detail::Ints magnitude = half & 0x7FFF;
  const detail::Ints huge = (0x7BFF - magnitude) >> 31;
  const detail::Ints normal = (magnitude << 13) + (112 << 23) + (huge & (112 << 23));
  const auto tiny = (detail::Ints)(__builtin_convertvector(magnitude, detail::Floats) * 0x1.0p-24f);
  const detail::Ints small = (magnitude - 0x400) >> 31;
  to = (detail::Floats)((tiny & small) | (normal & ~small) | ((half & 0x8000) << 16));
}

/// Writes eight values as they are stored.
template <typename T>
[[gnu::always_inline]] inline void store(const Lanes<T>& from, T* to) {
  if constexpr (sizeof(T) == sizeof(Sum<T>)) {
    std::memcpy(to, &from, sizeof from);
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    // As narrow, lane by lane.
    const auto bits = (detail::Words)from;
    const detail::Words rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const auto nan = (detail::Words)(from != from);
    const detail::Words stored = (rounded & ~nan) | (nan & 0x7FC0);
    const auto low = __builtin_convertvector(stored, detail::Shorts);
    std::memcpy(to, &low, sizeof low);
  } else {
    for (int lane = 0; lane < kLanes; ++lane) narrow(from[lane], to[lane]);
  }
}

/// What converts float16: operations on integers, which every processor has, or the instructions of
/// F16C. Both give the same bits: what is stored of a NaN is its sign alone.
struct Portable {};
struct F16c {};

#if FOREGATHER_F16C
namespace detail {
[[gnu::target("avx2,f16c")]] inline void load_f16c(const Float16* from, Floats& to) {
  __m128i bits;
  std::memcpy(&bits, from, sizeof bits);
  to = _mm256_cvtph_ps(bits);
}
[[gnu::target("avx2,f16c")]] inline void store_f16c(const Floats& from, Float16* to) {
  const Ints nan = from != from;
  const Ints bits = (Ints)from;
  const auto plain = (Floats)((bits & ~nan) | (nan & ((bits & INT32_MIN) | 0x7FC00000)));
  const __m128i half = _mm256_cvtps_ph(plain, _MM_FROUND_TO_NEAREST_INT);
  std::memcpy(to, &half, sizeof half);
}
}  // namespace detail
#endif

/// As load and store, with the instructions of Unit.
template <typename Unit, typename T>
[[gnu::always_inline]] inline void load_by(const T* from, Lanes<T>& to) {
#if FOREGATHER_F16C
  if constexpr (std::is_same_v<Unit, F16c> && std::is_same_v<T, Float16>) {
    detail::load_f16c(from, to);
    return;
  }
#endif
  load(from, to);
}
template <typename Unit, typename T>
[[gnu::always_inline]] inline void store_by(const Lanes<T>& from, T* to) {
#if FOREGATHER_F16C
  if constexpr (std::is_same_v<Unit, F16c> && std::is_same_v<T, Float16>) {
    detail::store_f16c(from, to);
    return;
  }
#endif
  store<T>(from, to);
}

/// The sum of eight lanes, always in this order.
template <typename L>
[[gnu::always_inline]] inline auto sum_lanes(const L& x) {
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

}  // namespace foregather::nn
