// Arrival draws: the numbers that Arrivals and ArrivalsBlock draw alike; see fastgcn_draw.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/exact_math.hpp"
#include "base/random.hpp"

namespace foregather::detail {

inline constexpr int kUnitBits = 61;  // of the sum of weights

/// Arrivals before the cut-off. Enough for weights as skewed as those of real graphs.
constexpr std::int64_t most_arrivals(std::int64_t s) { return 8 * (s + 8); }

/// Weight w in units, where the sum of all weights is below 2^above.
inline std::uint64_t weight_units(double w, int above) {
  if (!(w > 0)) return 0;
  const double scaled = std::ldexp(w, kUnitBits - above);
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(scaled + 0.5));
}

/// The rate W from the sum of all units.
inline double arrival_rate(std::uint64_t units, int above) {
  return std::ldexp(static_cast<double>(units), above - kUnitBits);
}

/// Keys of the arrivals and of the rest after the cut-off.
constexpr std::uint64_t arrivals_key(std::uint64_t layer) {
  return derive(layer, ~std::uint64_t{0});
}
constexpr std::uint64_t rest_key(std::uint64_t layer) { return derive(layer, ~std::uint64_t{1}); }

/// The time from arrival i - 1 to arrival i.
inline double arrival_wait(std::uint64_t key, std::uint64_t i, double rate) {
  return exponential(draw(key, 2 * i)) / rate;
}

/// Uniform in [0, range), range > 0: bounded() of random.hpp for 64 bits.
inline std::uint64_t below(std::uint64_t key, std::uint64_t counter, std::uint64_t range) {
  std::uint64_t bits = draw(key, counter);
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(bits) * range;
  if (static_cast<std::uint64_t>(product) < range) {
    const std::uint64_t threshold = (std::uint64_t{0} - range) % range;
    while (static_cast<std::uint64_t>(product) < threshold) {
      bits = mix64(bits + kGolden);
      product = static_cast<Wide>(bits) * range;
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

/// The unit on which arrival i falls.
inline std::uint64_t arrival_unit(std::uint64_t key, std::uint64_t i, std::uint64_t units) {
  return below(key, 2 * i + 1, units);
}

}  // namespace foregather::detail
