// Row word: what the planner knows about a row, as one number that orders rows by worth.
//
// Of 31 bits, the upper 19 are the step of the next use (counted over all plans), the lower 12 are
// 4095 - popularity; smaller is better. Steps before the horizon are left from earlier plans and
// mean "not known", like kNever. Buckets of the horizon: one per step, then one per rank for rows
// whose next use is not known, the least popular last.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foregather {

constexpr int kRankBits = 12;
constexpr std::size_t kRanks = std::size_t{1} << kRankBits;
constexpr std::uint32_t kRankMask = (1u << kRankBits) - 1;
constexpr std::uint32_t kUnseen = 0x7fffffffu;          ///< no next use, never used
constexpr std::uint32_t kNever = kUnseen >> kRankBits;  ///< steps are numbered below this

/// The bucket of a row in the horizon of `steps` steps from step `base` on.
inline std::size_t word_bucket(std::uint32_t word, std::uint32_t base, std::uint32_t steps) {
  const std::uint32_t wait = (word >> kRankBits) - base;  // wraps for steps of earlier plans
  return wait < steps ? wait : steps + (word & kRankMask);
}

/// The smallest word of a bucket; words of better buckets are below it.
inline std::uint32_t bucket_word(std::size_t bucket, std::uint32_t base, std::uint32_t steps) {
  if (bucket < steps) return (base + static_cast<std::uint32_t>(bucket)) << kRankBits;
  return kNever << kRankBits | static_cast<std::uint32_t>(bucket - steps);
}

}  // namespace foregather
