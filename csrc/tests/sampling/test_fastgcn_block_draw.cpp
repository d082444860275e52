// Owners that each have a range of vertices choose together what Arrivals chooses alone.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.hpp"
#include "base/types.hpp"
#include "sampling/layerwise/fastgcn_block_draw.hpp"
#include "sampling/layerwise/fastgcn_draw.hpp"
#include "sampling/picking/choose.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

struct Choice {
  std::vector<std::int64_t> vertex;
  double tau = std::numeric_limits<double>::infinity();
};

// The merge that column_owners.py does: arrivals in their order, then the smallest keys.
Choice merge(const std::vector<ArrivalsBlock>& owners, const ArrivalsScale& scale,
             std::uint64_t layer, std::int64_t s) {
  std::vector<std::pair<std::int64_t, std::int64_t>> come;
  const std::int64_t most = most_arrivals(s);
  for (const auto& owner : owners) {
    for (std::int64_t begin : {std::int64_t{0}, most / 4}) {  // in two rounds
      const auto offer = owner.arrive(layer, begin, begin == 0 ? most / 4 : most);
      for (std::size_t i = 0; i < offer.order.size(); ++i) {
        come.emplace_back(offer.order[i], offer.vertex[i]);
      }
    }
  }
  std::sort(come.begin(), come.end());
  Choice made;
  const auto wanted = static_cast<std::size_t>(s);
  for (std::size_t i = 0; i < std::min(wanted, come.size()); ++i) {
    made.vertex.push_back(come[i].second);
  }
  if (come.size() > wanted) {
    made.tau = arrival_time(layer, come[wanted].first, scale);
  } else {
    std::vector<std::pair<double, std::int64_t>> rest;
    for (const auto& owner : owners) {
      const auto offer = owner.rest(layer, most, s + 1);
      for (std::size_t i = 0; i < offer.order.size(); ++i) {
        rest.emplace_back(offer.order[i], offer.vertex[i]);
      }
    }
    std::sort(rest.begin(), rest.end());
    const std::size_t left = wanted - made.vertex.size();
    for (std::size_t i = 0; i < left; ++i) made.vertex.push_back(rest[i].second);
    made.tau = arrival_time(layer, most - 1, scale) + rest[left].first;
  }
  std::sort(made.vertex.begin(), made.vertex.end());
  return made;
}

void check_owners(const std::vector<double>& weights, const std::vector<std::int64_t>& starts,
                  std::int64_t s) {
  double total = 0;
  for (double w : weights) total += w;
  ArrivalsScale scale{0, 0};
  std::frexp(total, &scale.above);
  std::vector<ArrivalsBlock> owners;
  for (std::size_t o = 0; o + 1 < starts.size(); ++o) {
    const auto first = static_cast<std::size_t>(starts[o]);
    const auto count = static_cast<std::size_t>(starts[o + 1] - starts[o]);
    owners.emplace_back(std::span(weights).subspan(first, count), starts[o], scale.above);
    scale.units += owners.back().units();
  }
  std::uint64_t before = 0;
  for (auto& owner : owners) {
    owner.place(before, scale.units);
    before += owner.units();
  }
  const Arrivals alone(weights);
  std::vector<detail::Candidate> found;
  Numbering<std::int64_t> met;
  for (std::uint64_t layer = 0; layer < 20; ++layer) {
    const double tau = alone.choose(mix64(layer), s, found, met);
    const Choice made = merge(owners, scale, mix64(layer), s);
    CHECK(made.tau == tau);
    CHECK(made.vertex.size() == found.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(made.vertex[i] == found[i].place);
  }
}

void check_hostile() {
  const std::vector<double> weights{1, 2, 3};
  ArrivalsBlock block(weights, 0, 3);
  CHECK_THROWS(block.place(1, block.units()), InputError);
  CHECK_THROWS(block.place(0, block.units() - 1), InputError);
}

}  // namespace

int main() {
  std::vector<double> even(500, 1.0), steep(500, 0.0);
  for (std::size_t v = 0; v < steep.size(); ++v) {
    if (v % 3 != 0) steep[v] = std::ldexp(1.0, -static_cast<int>(v % 60));  // few have it all
  }
  for (const auto& weights : {even, steep}) {
    for (std::int64_t s : {1, 10, 100}) {
      check_owners(weights, {0, 500}, s);
      check_owners(weights, {0, 7, 7, 260, 500}, s);
    }
  }
  check_hostile();
  return 0;
}
