// Half: IEEE binary16 from binary32, rounded to nearest even, in integer and basic float
// operations.
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
  // All ones where x is below 2^-14; a mask, because compilers make a branch of `?:` here.
  const std::int32_t small = (magnitude - (113 << 23)) >> 31;
  const std::int32_t half = (tiny & small) | (normal & ~small);
  return static_cast<std::uint16_t>(half | ((bits >> 16) & 0x8000));
}

}  // namespace foregather
