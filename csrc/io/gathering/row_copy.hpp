// Row copy: one stored row to one row of an output, in the three forms of gathering. Private.
//
// Written once, so that gathering from memory and from disk agree bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.hpp"

namespace foregather {

struct CopyBytes {  ///< as stored
  std::size_t size;
  std::size_t out_bytes() const { return size; }
  void operator()(const std::byte* from, std::byte* to) const { std::memcpy(to, from, size); }
};

struct CopyHalf {  ///< binary16 to binary32
  std::size_t width;
  std::size_t out_bytes() const { return 4 * width; }
  void operator()(const std::byte* from, std::byte* out) const {
    auto* to = reinterpret_cast<float*>(out);
    for (std::size_t j = 0; j < width; ++j) {
      std::uint16_t half;
      std::memcpy(&half, from + 2 * j, 2);
      to[j] = from_half(half);
    }
  }
};

struct CopyScaled {  ///< int8 times a factor per column, one rounding
  const float* scale;
  std::size_t width;
  std::size_t out_bytes() const { return 4 * width; }
  void operator()(const std::byte* row, std::byte* out) const {
    const auto* from = reinterpret_cast<const std::int8_t*>(row);
    auto* to = reinterpret_cast<float*>(out);
    for (std::size_t j = 0; j < width; ++j) to[j] = static_cast<float>(from[j]) * scale[j];
  }
};

}  // namespace foregather
