// Arrivals block: the draws of fastgcn_draw.hpp where each of several owners has a range of
// vertices.
//
// The vertex of an arrival is a function of the key, its number and the sum of all units, so every
// owner finds its own arrivals without being asked for them; the times between them are a function
// of the key and the rate alone. So an owner offers (number, vertex) pairs, and whoever has the
// offers of all owners in the order of the numbers knows the choice and tau.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foregather {

/// What all owners together have.
struct ArrivalsScale {
  int above;            ///< the sum of all weights is below 2^above
  std::uint64_t units;  ///< sum of all units
};

/// An owner's offer: vertices with the numbers of their arrivals, or with their keys.
template <typename Order>
struct Offer {
  std::vector<Order> order;
  std::vector<std::int64_t> vertex;
};

/// The weighted vertices first, first + 1, ... of one owner.
class ArrivalsBlock {
 public:
  /// Keeps a reference to `weights`, which are finite and not negative.
  ArrivalsBlock(std::span<const double> weights, std::int64_t first, int above);

  /// Units of this block.
  std::uint64_t units() const { return upto_.empty() ? 0 : upto_.back(); }

  /// Says that the units of the owners before sum to `before`, and those of all to `all`.
  void place(std::uint64_t before, std::uint64_t all);

  /// Own vertices whose first arrival has a number in [begin, end), in the order of the numbers.
  Offer<std::int64_t> arrive(std::uint64_t layer, std::int64_t begin, std::int64_t end) const;

  /// Of the own vertices that are not among the first `end` arrivals, the `s` with the smallest
  /// keys.
  Offer<double> rest(std::uint64_t layer, std::int64_t end, std::int64_t s) const;

 private:
  std::span<const double> weights_;
  std::int64_t first_;
  std::vector<std::uint64_t> upto_;  ///< units of own vertices 0 .. v
  std::uint64_t before_ = 0, all_ = 0;
};

/// The most arrivals of a draw of s vertices.
std::int64_t most_arrivals(std::int64_t s);

/// The time of arrival `number`.
double arrival_time(std::uint64_t layer, std::int64_t number, const ArrivalsScale& scale);

}  // namespace foregather
