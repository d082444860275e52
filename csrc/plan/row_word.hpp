// Row word: what the planner knows about a row, as one number that orders rows by worth.
//
// The upper bits are the step of the next use (counted over plans), the lower 12 are 4095 -
// popularity; smaller is better. Steps before the horizon are left from earlier plans and mean "not
// known", like the step `kNever`. Buckets of the horizon: one per step, then one per rank for rows
// whose next use is not known, the least popular last.
//
// A WideWord has 31 bits, so steps run on over half a million before tables forget them. A
// NarrowWord has 16 and tells 14 steps apart: for planners that never see more at once, which is
// what little memory leaves. Both order rows alike, so plans are equal.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foregather {

constexpr int kRankBits = 12;
constexpr std::size_t kRanks = std::size_t{1} << kRankBits;
constexpr std::uint32_t kRankMask = (1u << kRankBits) - 1;

/// Words of one width; entries of a table from kHeld on are no words, but stand for rows that are
/// in the cache.
template <typename Stored, std::uint32_t unseen>
struct RowWord {
  using Entry = Stored;
  static constexpr std::uint32_t kUnseen = unseen;  ///< no next use, never used: the largest word
  static constexpr std::uint32_t kNever = kUnseen >> kRankBits;  ///< steps are numbered below this
  static constexpr std::uint32_t kHeld = kUnseen + 1;
};
using WideWord = RowWord<std::uint32_t, 0x7fffffffu>;
using NarrowWord = RowWord<std::uint16_t, 0xefffu>;

/// The bucket of a row in the horizon of `steps` steps from step `base` on.
inline std::size_t word_bucket(std::uint32_t word, std::uint32_t base, std::uint32_t steps) {
  const std::uint32_t wait = (word >> kRankBits) - base;  // wraps for steps of earlier plans
  return wait < steps ? wait : steps + (word & kRankMask);
}

/// The smallest word of a bucket; words of better buckets are below it.
template <typename Word>
std::uint32_t bucket_word(std::size_t bucket, std::uint32_t base, std::uint32_t steps) {
  if (bucket < steps) return (base + static_cast<std::uint32_t>(bucket)) << kRankBits;
  return Word::kNever << kRankBits | static_cast<std::uint32_t>(bucket - steps);
}

}  // namespace foregather
