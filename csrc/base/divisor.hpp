// Divisor: exact unsigned division by a number that stays the same, as one multiplication.
//
// For x and d below 2^32 (d > 1), floor(x / d) is the upper half of x * (floor(2^64 / d) + 1): the
// reciprocal is too large by less than one part in 2^32, which no such x can carry over to the next
// integer. Larger x take the division instruction.
#pragma once

#include <cstdint>

namespace foregather {

class Divisor {
 public:
  Divisor() = default;
  /// d > 0.
  explicit Divisor(std::uint64_t d)
      : value_(d),
        reciprocal_(~std::uint64_t{0} / d + 1),
        below_(d > 1 && (d >> 32) == 0 ? std::uint64_t{1} << 32 : 0) {}

  std::uint64_t value() const { return value_; }

  /// floor(x / d).
  std::uint64_t quotient(std::uint64_t x) const {
    if (x < below_) [[likely]] {
      __extension__ using Wide = unsigned __int128;
      return static_cast<std::uint64_t>((static_cast<Wide>(reciprocal_) * x) >> 64);
    }
    return x / value_;
  }

 private:
  std::uint64_t value_ = 1;
  std::uint64_t reciprocal_ = 0;
  std::uint64_t below_ = 0;  ///< x under this may be multiplied
};

}  // namespace foregather
