#include "graph/key_index.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>

#include "base/types.hpp"
#include "parallel/pool.hpp"

namespace foregather {

KeyIndex::KeyIndex(std::span<const std::uint64_t> sorted) : sorted_(sorted) {
  if (sorted.empty()) return;
  base_ = sorted.front();
  const std::uint64_t span = sorted.back() - base_;
  const int wanted = std::bit_width(sorted.size() / 4 + 1) - 1;  // log2 of buckets
  shift_ = std::clamp(static_cast<int>(std::bit_width(span)) - wanted, 0, 63);
  const auto buckets = static_cast<std::size_t>(span >> shift_) + 1;
  starts_.resize(buckets + 1);
  std::size_t bucket = 0;  // starts_[0 .. bucket] are set
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i] <= sorted[i - 1]) {
      throw InputError("keys do not ascend at " + std::to_string(i));
    }
    const auto own = static_cast<std::size_t>((sorted[i] - base_) >> shift_);
    while (bucket < own) starts_[++bucket] = static_cast<std::int64_t>(i);
  }
  while (bucket < buckets) starts_[++bucket] = static_cast<std::int64_t>(sorted.size());
}

void KeyIndex::find(std::span<const std::uint64_t> keys, std::span<std::int64_t> positions,
                    int threads) const {
  if (positions.size() != keys.size()) throw InputError("keys and positions differ in length");
  if (sorted_.empty()) {
    std::fill(positions.begin(), positions.end(), -1);
    return;
  }
  constexpr std::size_t kLanes = 16;
  const std::uint64_t last = sorted_.back();
  const auto count = static_cast<std::int64_t>(keys.size());
  parallel_for(count, threads, 1 << 12, [&](std::int64_t begin, std::int64_t end, int) {
    const auto stop = static_cast<std::size_t>(end);
    for (auto at = static_cast<std::size_t>(begin); at < stop; at += kLanes) {
      const std::size_t lanes = std::min(kLanes, stop - at);
      std::size_t bucket[kLanes];
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const std::uint64_t key = std::clamp(keys[at + lane], base_, last);
        bucket[lane] = static_cast<std::size_t>((key - base_) >> shift_);
        __builtin_prefetch(&starts_[bucket[lane]]);
      }
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        __builtin_prefetch(sorted_.data() + starts_[bucket[lane]]);
      }
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const auto first = sorted_.begin() + starts_[bucket[lane]];
        const auto final = sorted_.begin() + starts_[bucket[lane] + 1];
        const auto place = std::lower_bound(first, final, keys[at + lane]);
        const bool found = place != final && *place == keys[at + lane];
        positions[at + lane] = found ? place - sorted_.begin() : -1;
      }
    }
  });
}

}  // namespace foregather
