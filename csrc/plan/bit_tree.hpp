// BitTree: a set of small integers that gives its largest member in constant time.
//
// Level 0 has a bit for each integer; a bit of a level above says that a word below is not zero.
// Four levels hold 16 million integers, so every operation touches at most four words.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace foregather {

class BitTree {
 public:
  /// Empties the set and makes room for integers below `count`.
  void reset(std::size_t count) {
    levels_.clear();
    do {
      count = (count + 63) / 64;
      levels_.emplace_back(count, 0);
    } while (count > 1);
  }
  void insert(std::size_t i) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[i >> 6];
      const bool known = word != 0;
      word |= std::uint64_t{1} << (i & 63);
      if (known) return;
      i >>= 6;
    }
  }
  void erase(std::size_t i) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[i >> 6];
      word &= ~(std::uint64_t{1} << (i & 63));
      if (word != 0) return;
      i >>= 6;
    }
  }
  /// The largest member, -1 if there is none.
  std::int64_t largest() const {
    if (levels_.empty() || levels_.back()[0] == 0) return -1;
    std::size_t at = 0;
    for (std::size_t k = levels_.size(); k-- > 0;) {
      at = at * 64 + static_cast<std::size_t>(63 - std::countl_zero(levels_[k][at]));
    }
    return static_cast<std::int64_t>(at);
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;
};

}  // namespace foregather
