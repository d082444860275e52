// Half: IEEE binary16 from binary32, rounded to nearest even, and back (exact), in integer and
// basic float operations.
//
// Written out because hardware conversion is optional on x86 and its fall-backs differ by compiler;
// this form has the same bits everywhere and no branches, so loops over it vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace foregather {

/// The bits of the binary16 nearest to x, for |x| < 65520 (what a binary16 can hold).
constexpr std::uint16_t to_half(float x) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(x);
  const std::int32_t magnitude = bits & 0x7FFFFFFF;
  // Normal: move the exponent bias from 127 to 15, drop 13 bits, round half to even by carry.
  const std::int32_t normal = (magnitude + (0xFFF - (112 << 23)) + ((magnitude >> 13) & 1)) >> 13;
  // Subnormal: the last bit of floats in [0.5, 1) weighs 2^-24, the last bit of a subnormal half,
  // so the addition itself rounds.
  const std::int32_t tiny = std::bit_cast<std::int32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
                            std::bit_cast<std::int32_t>(0.5f);
  // All ones where x is below 2^-14; a mask, because compilers turn `?:` into a branch here.
  const std::int32_t small = (magnitude - (113 << 23)) >> 31;
  const std::int32_t half = (tiny & small) | (normal & ~small);
  return static_cast<std::uint16_t>(half | ((bits >> 16) & 0x8000));
}

/// The binary32 of the same value; infinities and NaNs (with their payload) included.
constexpr float from_half(std::uint16_t half) {
  const std::int32_t magnitude = half & 0x7FFF;
  // Normal: shift the exponent into place and move its bias; the largest exponent moves twice, so
  // that it becomes the largest again.
  const std::int32_t huge = (0x7BFF - magnitude) >> 31;
  const std::int32_t normal = (magnitude << 13) + (112 << 23) + (huge & (112 << 23));
  // Subnormal: a count of 2^-24, which is a normal float, so flushing modes cannot touch it.
  const auto tiny = std::bit_cast<std::int32_t>(static_cast<float>(magnitude) * 0x1.0p-24f);
  const std::int32_t small = (magnitude - 0x400) >> 31;
  const std::int32_t bits = (tiny & small) | (normal & ~small);
  return std::bit_cast<float>(bits | (static_cast<std::int32_t>(half & 0x8000) << 16));
}

}  // namespace foregather
