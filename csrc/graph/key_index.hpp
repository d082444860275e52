// KeyIndex: finds 64-bit keys in a sorted array, with two cache misses where keys are spread
// evenly.
//
// The span from the smallest key to the largest is cut into about a quarter as many equal buckets
// as there are keys, and the index holds where in the array each bucket starts. A key is searched
// for in its bucket alone: hashes have about four there; if integers crowd into one bucket, the
// search halves it as often as needed, no more than a search of the whole array would.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foregather {

class KeyIndex {
 public:
  /// `sorted` ascends, its keys are distinct, and it outlives the index.
  /// Throws InputError where it does not ascend.
  explicit KeyIndex(std::span<const std::uint64_t> sorted);

  /// positions[i] = index of keys[i] in `sorted`, or -1 where it is absent.
  void find(std::span<const std::uint64_t> keys, std::span<std::int64_t> positions,
            int threads) const;

 private:
  std::span<const std::uint64_t> sorted_;
  std::uint64_t base_ = 0;            ///< the smallest key
  int shift_ = 0;                     ///< bucket of key: (key - base_) >> shift_
  std::vector<std::int64_t> starts_;  ///< of each bucket, and the end
};

}  // namespace foregather
