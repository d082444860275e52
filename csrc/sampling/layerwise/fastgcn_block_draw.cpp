#include "sampling/layerwise/fastgcn_block_draw.hpp"

#include <algorithm>

#include "base/types.hpp"
#include "sampling/layerwise/fastgcn_keys.hpp"
#include "sampling/numbering/numbering.hpp"
#include "sampling/picking/choose.hpp"

namespace foregather {

ArrivalsBlock::ArrivalsBlock(std::span<const double> weights, std::int64_t first, int above)
    : weights_(weights), first_(first) {
  upto_.reserve(weights.size());
  std::uint64_t units = 0;
  for (double w : weights) {
    units += detail::weight_units(w, above);
    upto_.push_back(units);
  }
}

void ArrivalsBlock::place(std::uint64_t before, std::uint64_t all) {
  if (all < units() || before > all - units()) {
    throw InputError("the units of all owners do not hold those of this one");
  }
  before_ = before;
  all_ = all;
}

Offer<std::int64_t> ArrivalsBlock::arrive(std::uint64_t layer, std::int64_t begin,
                                          std::int64_t end) const {
  Offer<std::int64_t> offer;
  if (units() == 0) return offer;
  const std::uint64_t key = detail::arrivals_key(layer);
  Numbering<std::int64_t> met;
  for (std::int64_t i = 0; i < end; ++i) {
    const std::uint64_t unit = detail::arrival_unit(key, static_cast<std::uint64_t>(i), all_);
    if (unit < before_ || unit - before_ >= units()) continue;
    const std::int64_t v =
        std::upper_bound(upto_.begin(), upto_.end(), unit - before_) - upto_.begin();
    const std::size_t known = met.size();
    if (met.number(v) != known || i < begin) continue;
    offer.order.push_back(i);
    offer.vertex.push_back(first_ + v);
  }
  return offer;
}

Offer<double> ArrivalsBlock::rest(std::uint64_t layer, std::int64_t end, std::int64_t s) const {
  std::vector<bool> come(weights_.size(), false);
  for (std::int64_t v : arrive(layer, 0, end).vertex) {
    come[static_cast<std::size_t>(v - first_)] = true;
  }
  const auto weight = [&](std::int64_t v) {
    return come[static_cast<std::size_t>(v)] ? 0.0 : weights_[static_cast<std::size_t>(v)];
  };
  const auto n = static_cast<std::int64_t>(weights_.size());
  double left = 0;  // only guides the search
  for (std::int64_t v = 0; v < n; ++v) left += weight(v);
  std::vector<detail::Candidate> found;
  detail::choose(
      n, [&](std::int64_t v) { return first_ + v; }, weight, left, detail::rest_key(layer), s,
      found);
  Offer<double> offer;
  for (const detail::Candidate& candidate : found) {
    offer.order.push_back(candidate.key);
    offer.vertex.push_back(candidate.tie);
  }
  return offer;
}

std::int64_t most_arrivals(std::int64_t s) { return detail::most_arrivals(s); }

double arrival_time(std::uint64_t layer, std::int64_t number, const ArrivalsScale& scale) {
  const std::uint64_t key = detail::arrivals_key(layer);
  const double rate = detail::arrival_rate(scale.units, scale.above);
  double time = 0;
  for (std::int64_t i = 0; i <= number; ++i) {
    time += detail::arrival_wait(key, static_cast<std::uint64_t>(i), rate);
  }
  return time;
}

}  // namespace foregather
