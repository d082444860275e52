// Random: every random number is a pure function of a key and a counter; there is no stream.
//
// The key says *what* is being drawn (seed, purpose, epoch, batch, layer), the counter *which*
// draw it is (vertex, slot). So any thread, rank or order of evaluation gives the same bits.
//
// mix64 is the finaliser of SplitMix64 (Steele, Lea, Flood 2014; constants by Stafford, variant
// 13): a bijection of 64 bits that passes the usual batteries when fed a counter times an odd
// constant. Bounded integers use Lemire's multiply-shift with the rejection step, so they are
// exactly uniform.
#pragma once

#include <cstdint>
#include <span>

namespace foregather {

inline constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ull;  ///< 2^64 / golden ratio, odd

/// Bijective scrambling of 64 bits.
constexpr std::uint64_t mix64(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// A key derived from another and a word: key(key(seed, purpose), v) and so on.
constexpr std::uint64_t derive(std::uint64_t key, std::uint64_t word) {
  return mix64(key + kGolden * (word + 1));
}

/// Draw number `counter` under `key`: 64 uniform bits.
constexpr std::uint64_t draw(std::uint64_t key, std::uint64_t counter) {
  return mix64(key + kGolden * (counter + 1));
}

/// A key of any number of words: each is mixed into what the words before it made.
constexpr std::uint64_t fold_key(std::span<const std::uint64_t> words) {
  std::uint64_t key = 0;
  for (const std::uint64_t word : words) key = mix64((key ^ word) + kGolden);
  return key;
}

/// A double in [0, 1) from the top 53 bits.
constexpr double to_unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

/// Uniform integer in [0, range), range > 0, from `bits` >> 32; on the (rare) rejection fresh bits
/// are derived, so that the same bits always give one answer. The low half of `bits` is then still
/// 32 uniform bits that the answer does not depend on.
constexpr std::uint32_t bounded_bits(std::uint64_t& bits, std::uint32_t range) {
  std::uint64_t product = (bits >> 32) * range;
  auto low = static_cast<std::uint32_t>(product);
  if (low < range) {
    const std::uint32_t threshold = (0u - range) % range;
    while (low < threshold) {
      bits = mix64(bits + kGolden);
      product = (bits >> 32) * range;
      low = static_cast<std::uint32_t>(product);
    }
  }
  return static_cast<std::uint32_t>(product >> 32);
}

/// Uniform integer in [0, range), range > 0, from draw number `counter`.
constexpr std::uint32_t bounded(std::uint64_t key, std::uint64_t counter, std::uint32_t range) {
  std::uint64_t bits = draw(key, counter);
  return bounded_bits(bits, range);
}

/// Uniform integer in [0, range), 0 < range <= 2^63, from all of `bits`; as bounded_bits, for
/// ranges of any size.
constexpr std::uint64_t bounded_wide(std::uint64_t bits, std::uint64_t range) {
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(bits) * range;
  auto low = static_cast<std::uint64_t>(product);
  if (low < range) {
    const std::uint64_t threshold = (0u - range) % range;
    while (low < threshold) {
      bits = mix64(bits + kGolden);
      product = static_cast<Wide>(bits) * range;
      low = static_cast<std::uint64_t>(product);
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace foregather
