#include "sampling/layerwise/fastgcn_draw.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/types.hpp"
#include "sampling/layerwise/fastgcn_keys.hpp"
#include "sampling/picking/choose.hpp"

namespace foregather {
Arrivals::Arrivals(std::span<const double> weights) : weights_(weights) {
  double total = 0;
  for (double w : weights) {
    if (!(w >= 0) || !std::isfinite(w)) {
      throw InputError("weights hold a number that is negative or not finite");
    }
    total += w;
    positive_ += w > 0;
  }
  if (positive_ == 0) return;
  if (!std::isfinite(total)) throw InputError("the sum of the weights is not finite");
  int above = 0;  // total < 2^above
  std::frexp(total, &above);
  upto_.reserve(weights.size());
  std::uint64_t units = 0;
  for (double w : weights) {
    units += detail::weight_units(w, above);
    upto_.push_back(units);
  }
  rate_ = detail::arrival_rate(units, above);
  // At most one piece of the guide for two vertices; a piece of many light vertices is searched.
  shift_ = std::max(0, static_cast<int>(std::bit_width(units)) -
                           static_cast<int>(std::bit_width(weights.size())) + 1);
  guide_.resize((units >> shift_) + 2);
  std::size_t v = 0;
  for (std::size_t piece = 0; piece < guide_.size(); ++piece) {
    while (v + 1 < upto_.size() && upto_[v] <= static_cast<std::uint64_t>(piece) << shift_) ++v;
    guide_[piece] = static_cast<std::int64_t>(v);
  }
}

// Who arrives from number i on, a block at a time, so that the misses of one are not waited for
// before the next is begun.
void Arrivals::look_up(std::uint64_t key, std::uint64_t i,
                       std::array<std::int64_t, kBlock>& come) const {
  std::array<std::uint64_t, kBlock> unit;
  for (std::size_t k = 0; k < kBlock; ++k) {
    unit[k] = detail::arrival_unit(key, i + k, upto_.back());
    __builtin_prefetch(&guide_[unit[k] >> shift_]);
  }
  for (std::size_t k = 0; k < kBlock; ++k) __builtin_prefetch(&upto_[guide_[unit[k] >> shift_]]);
  for (std::size_t k = 0; k < kBlock; ++k) {
    const std::size_t piece = unit[k] >> shift_;
    const auto first = upto_.begin() + guide_[piece], last = upto_.begin() + guide_[piece + 1];
    come[k] = std::upper_bound(first, last, unit[k]) - upto_.begin();
  }
}

double Arrivals::choose(std::uint64_t layer, std::int64_t s, std::vector<detail::Candidate>& found,
                        Numbering<std::int64_t>& met) const {
  found.clear();
  double time = 0;
  if (s < 0 || s >= positive_) {
    for (std::size_t v = 0; v < weights_.size(); ++v) {
      const auto id = static_cast<std::int64_t>(v);
      if (weights_[v] > 0) found.push_back({0, id, id});
    }
    return std::numeric_limits<double>::infinity();
  }
  const std::uint64_t key = detail::arrivals_key(layer);
  const auto most = static_cast<std::uint64_t>(detail::most_arrivals(s));
  met.clear(static_cast<std::size_t>(s) + 1);
  std::array<std::int64_t, kBlock> come;
  for (std::uint64_t i = 0; i < most; ++i) {
    if (i % kBlock == 0) look_up(key, i, come);
    time += detail::arrival_wait(key, i, rate_);
    const std::int64_t v = come[i % kBlock];
    if (met.number(v) != found.size()) continue;
    if (static_cast<std::int64_t>(found.size()) == s) {
      std::sort(found.begin(), found.end(),
                [](const auto& a, const auto& b) { return a.place < b.place; });
      return time;
    }
    found.push_back({time, v, v});
  }
  return choose_rest(time, layer, s, found, met);
}

// Looks at every vertex: those who have not come by `time` compete for the places that are left.
double Arrivals::choose_rest(double time, std::uint64_t layer, std::int64_t s,
                             std::vector<detail::Candidate>& found,
                             const Numbering<std::int64_t>& met) const {
  const auto weight = [&](std::int64_t v) {
    const double w = weights_[static_cast<std::size_t>(v)];
    return w > 0 && met.find(v) == Numbering<std::int64_t>::kNone ? w : 0;
  };
  double left = 0;  // only guides the search
  const auto n = static_cast<std::int64_t>(weights_.size());
  for (std::int64_t v = 0; v < n; ++v) left += weight(v);
  std::vector<detail::Candidate> rest;
  const double tau = detail::choose(
      n, [](std::int64_t v) { return v; }, weight, left, detail::rest_key(layer),
      s - static_cast<std::int64_t>(found.size()), rest);
  found.insert(found.end(), rest.begin(), rest.end());
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.place < b.place; });
  return time + tau;
}

}  // namespace foregather
