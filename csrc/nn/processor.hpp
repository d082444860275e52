// Processor: one loop compiled for every x86-64 and once more for AVX2 and F16C, chosen when it
// runs.
// Private.
//
// The wheel is for every x86-64, whose lanes are half as wide. Both forms do the same operations
// in the same order and neither fuses multiplication and addition, so they give the same bits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/cpu_features.hpp"
#include "nn/number.hpp"

#if defined(__clang__)
#define FOREGATHER_FLATTEN
#else
#define FOREGATHER_FLATTEN [[gnu::flatten]]
#endif

/// Calls MACRO(T, Index) for the storage types and widths of indices that are instantiated.
#define FOREGATHER_EACH_NUMBER(MACRO)             \
  MACRO(float, std::int32_t)                      \
  MACRO(float, std::int64_t)                      \
  MACRO(double, std::int32_t)                     \
  MACRO(double, std::int64_t)                     \
  MACRO(::foregather::nn::Bfloat16, std::int32_t) \
  MACRO(::foregather::nn::Bfloat16, std::int64_t) \
  MACRO(::foregather::nn::Float16, std::int32_t)  \
  MACRO(::foregather::nn::Float16, std::int64_t)

namespace foregather::nn {

namespace detail {
template <typename Loop, typename... Arguments>
FOREGATHER_FLATTEN void on_any(const Arguments&... arguments) {
  Loop::template run<Portable>(arguments...);
}
#if defined(__x86_64__) && defined(__GNUC__)
template <typename Loop, typename... Arguments>
[[gnu::target("avx2,f16c")]] FOREGATHER_FLATTEN void on_avx2(const Arguments&... arguments) {
  Loop::template run<F16c>(arguments...);
}
// Every processor with AVX2 has F16C; a virtual one may hide it.
inline bool has_avx2() { return cpu_features().avx2 && cpu_features().f16c; }
#else
template <typename Loop, typename... Arguments>
void on_avx2(const Arguments&... arguments) {
  Loop::template run<Portable>(arguments...);
}
inline bool has_avx2() { return false; }
#endif
}  // namespace detail

/// Whether AVX2 is used where there is any; false only in tests, which compare both forms.
inline std::atomic<bool>& avx2_allowed() {
  static std::atomic<bool> allowed{true};
  return allowed;
}

/// Runs Loop::run<Unit>(arguments...), which must be inlined, in the best form for this processor.
template <typename Loop, typename... Arguments>
void on_this_processor(const Arguments&... arguments) {
  static const bool has = detail::has_avx2();
  if (has && avx2_allowed().load(std::memory_order_relaxed)) {
    detail::on_avx2<Loop>(arguments...);
  } else {
    detail::on_any<Loop>(arguments...);
  }
}

/// Asks for the first lines of a row; what follows is a stream that the hardware finds.
template <typename T>
[[gnu::always_inline]] inline void prefetch_row(const T* row, std::int64_t values) {
  constexpr std::int64_t kLine = 64, kMost = 8 * kLine;
  const auto* const at = reinterpret_cast<const char*>(row);
  const std::int64_t bytes = std::min(values * static_cast<std::int64_t>(sizeof(T)), kMost);
  for (std::int64_t byte = 0; byte < bytes; byte += kLine) __builtin_prefetch(at + byte);
}

/// Covers the columns of every head: calls take(lanes, head, column) where lanes is an
/// index_sequence of the vectors of eight columns from `column` on, or empty where the head has
/// fewer columns than a vector. The last vectors may overlap those before, so that no column is
/// left over: values are then computed twice, not added twice.
template <typename T, typename Take>
[[gnu::always_inline]] inline void each_columns(std::int64_t heads, std::int64_t width,
                                                const Take& take) {
  constexpr std::size_t kMost = sizeof(Sum<T>) == 4 ? 8 : 4;  // sixteen registers hold them
  for (std::int64_t head = 0; head < heads; ++head) {
    std::int64_t column = 0;
    if (width < kLanes) {
      take(std::index_sequence<>{}, head, column);
      continue;
    }
    constexpr auto kWide = static_cast<std::int64_t>(kMost) * kLanes;
    for (; column + kWide <= width; column += kWide) {
      take(std::make_index_sequence<kMost>{}, head, column);
    }
    for (; column + 4 * kLanes <= width && kMost > 4; column += 4 * kLanes) {
      take(std::make_index_sequence<4>{}, head, column);
    }
    for (; column + 2 * kLanes <= width; column += 2 * kLanes) {
      take(std::make_index_sequence<2>{}, head, column);
    }
    for (; column < width; column += kLanes) {
      take(std::index_sequence<0>{}, head, std::min(column, width - kLanes));
    }
  }
}

}  // namespace foregather::nn
