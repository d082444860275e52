// Choose: the s smallest exponential keys of a list of weighted vertices, shared by sample_columns
// and the layer-wise kernels.
//
// Candidates with a key of at most `limit` are collected; -log(u) >= 1 - u, so most vertices are
// rejected by one multiplication, without a logarithm. If fewer than s + 1 are found the limit
// grows. The result does not depend on the limits, only on the keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/exact_math.hpp"
#include "sampling/keys.hpp"
#include "sampling/picking/pick.hpp"

namespace foregather::detail {

/// A weighted vertex in the draw.
struct Candidate {
  double key;
  std::int64_t tie;    ///< vertex id
  std::int64_t place;  ///< where the caller finds it
  bool operator<(const Candidate& other) const {
    if (key != other.key) return key < other.key;
    if (tie != other.tie) return tie < other.tie;
    return place < other.place;
  }
};

/// Keeps the s smallest of `found`, in the order of their places; returns tau.
inline double keep_smallest(std::vector<Candidate>& found, std::int64_t s) {
  double tau = std::numeric_limits<double>::infinity();
  if (static_cast<std::int64_t>(found.size()) > s) {
    std::nth_element(found.begin(), found.begin() + s, found.end());
    tau = found[s].key;
    found.resize(s);
  }
  std::sort(found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.place < b.place; });
  return tau;
}

/// Collects vertices whose key is at most `limit`.
class Candidates {
 public:
  Candidates(std::uint64_t layer, double limit, std::vector<Candidate>& found)
      : layer_(layer), limit_(limit), bound_(limit * (1 + 0x1.0p-40)), found_(found) {
    found.clear();
  }

  /// Vertex v of weight w; 0 is never chosen.
  void consider(std::uint64_t v, double w, std::int64_t place) {
    if (!(w > 0)) return;
    const std::uint64_t bits = draw(vertex_key(layer_, v), 0);
    // The margin of bound_ covers rounding: what is rejected has a key above limit for certain.
    if (1 - to_open_unit(bits) > w * bound_) return;
    const double key = exponential(bits) / w;
    if (key <= limit_) found_.push_back({key, static_cast<std::int64_t>(v), place});
  }

 private:
  const std::uint64_t layer_;
  const double limit_, bound_;
  std::vector<Candidate>& found_;
};

/// Calls collect(candidates) with growing limits until more than s vertices are found, or all that
/// there are; keeps the s smallest and returns tau. `total` is the sum of the weights (any value >
/// 0 gives the same result, a good one is faster), `most` a bound on the number of vertices.
template <typename Collect>
double choose_by(const Collect& collect, double total, std::int64_t most, std::uint64_t layer,
                 std::int64_t s, std::vector<Candidate>& found) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool all = s < 0 || 4 * s > most || !(total > 0);
  // Were all weights small, 4 (s + 8) would be found; heavy ones count once, so some more are
  // sought than needed: a second pass over all vertices costs far more than a few logarithms.
  double limit = all ? kInfinity : 4 * static_cast<double>(s + 8) / total;
  for (int attempt = 0;; ++attempt) {
    Candidates candidates(layer, limit, found);
    collect(candidates);
    if (limit == kInfinity || static_cast<std::int64_t>(found.size()) > s) break;
    limit = attempt == 0 ? 8 * limit : kInfinity;
  }
  return s < 0 ? kInfinity : keep_smallest(found, s);
}

/// Picks s of the vertices id(i), i < n, with weights weight(i) (0: never), into `found`; `total`
/// is the sum of the weights (any value > 0 gives the same result, a good one is faster).
template <typename IdOf, typename WeightOf>
double choose(std::int64_t n, const IdOf& id, const WeightOf& weight, double total,
              std::uint64_t layer, std::int64_t s, std::vector<Candidate>& found) {
  const auto collect = [&](Candidates& candidates) {
    for (std::int64_t i = 0; i < n; ++i) {
      candidates.consider(static_cast<std::uint64_t>(id(i)), weight(i), i);
    }
  };
  return choose_by(collect, total, n, layer, s, found);
}

/// The entries begin .. end - 1 of a row, all alike: the picks of the fused kernel.
inline void draw_uniform(std::int64_t begin, std::int64_t end, std::uint64_t key, bool replace,
                         std::span<std::int64_t> picks, std::vector<std::uint32_t>& places,
                         PickScratch& scratch) {
  const auto degree = static_cast<std::uint32_t>(end - begin);
  const auto count = static_cast<std::uint32_t>(picks.size());
  places.resize(count);
  if (replace) {
    pick_any(key, degree, count, places.data());
  } else {
    pick_distinct(key, degree, count, places.data(), scratch);
  }
  for (std::size_t i = 0; i < picks.size(); ++i) picks[i] = begin + places[i];
}

}  // namespace foregather::detail
