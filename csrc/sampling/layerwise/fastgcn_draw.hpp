// Arrivals: draws s of N weighted vertices without replacement, without looking at all N.
//
// Vertices arrive in a Poisson process: the time between two arrivals is exponential with rate W =
// sum of weights, and each arrival is vertex v with probability w_v / W. The first arrival of v is
// then exponential with rate w_v, independent of the others: exactly the key of sample_columns in
// another guise. The s vertices that arrive first are chosen, tau is the time at which the next
// one arrives, and given tau a vertex was included with probability 1 - exp(-w tau).
//
// If a few vertices hold nearly all the weight, they arrive again and again. After a number of
// arrivals that depends on s alone the process is cut off at its time T: vertices that have not
// arrived have, as exponentials have no memory, keys T - log(u) / w, and the smallest of them win.
//
// Arrival i under the key a = derive(layer key, 2^64 - 1): the time grows by exponential(draw(a,
// 2 i)) / W, the vertex is the one whose interval of whole units holds below(a, 2 i + 1, units);
// after the cut-off, u = draw(vertex_key(derive(layer key, 2^64 - 2), v), 0). A unit is the power
// of two for which the weights sum to between 2^60 and 2^61 units (about; weights are rounded, to
// at least one unit unless they are 0).
//
// Cost: linear in s; a table of 12 bytes per vertex is made once for the weights.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sampling/numbering/numbering.hpp"

namespace foregather {

namespace detail {
struct Candidate;
}

/// Weighted vertices 0 .. N - 1, ready for draws.
class Arrivals {
 public:
  /// Throws InputError for a weight that is negative or not finite. Keeps a reference to `weights`.
  explicit Arrivals(std::span<const double> weights);

  /// Vertices with a weight above 0.
  std::int64_t positive() const { return positive_; }

  /// The s vertices that arrive first (all if s < 0 or there are no more), ascending, into `found`;
  /// returns tau, infinity if all were chosen. `met` is scratch.
  double choose(std::uint64_t layer, std::int64_t s, std::vector<detail::Candidate>& found,
                Numbering<std::int64_t>& met) const;

  std::size_t bytes() const { return 8 * (upto_.size() + guide_.size()); }

 private:
  static constexpr std::size_t kBlock = 16;
  void look_up(std::uint64_t key, std::uint64_t i, std::array<std::int64_t, kBlock>& come) const;
  double choose_rest(double time, std::uint64_t layer, std::int64_t s,
                     std::vector<detail::Candidate>& found,
                     const Numbering<std::int64_t>& met) const;

  std::span<const double> weights_;
  std::vector<std::uint64_t> upto_;  ///< units of vertices 0 .. v
  std::vector<std::int64_t> guide_;  ///< first vertex of each 2^shift_ units
  int shift_ = 0;
  double rate_ = 0;  ///< W
  std::int64_t positive_ = 0;
};

}  // namespace foregather
