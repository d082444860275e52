#include "sampling/picking/draw.hpp"

#include <algorithm>
#include <string>

#include "sampling/keys.hpp"
#include "sampling/picking/pick.hpp"

namespace foregather {
namespace {

template <typename Id>
std::int64_t degree(const Topology<Id>& graph, std::int64_t v) {
  const auto at = static_cast<std::size_t>(v);
  return graph.indptr[at + 1] - graph.indptr[at];
}

template <typename Id>
double inverse_degree(const Topology<Id>& graph, std::int64_t v) {
  return 1.0 / static_cast<double>(std::max<std::int64_t>(degree(graph, v), 1));
}

// The first vertex whose running sum exceeds a part of the total that `bits` choose.
std::int64_t invert(std::span<const double> cumulative, std::uint64_t bits) {
  const double at = to_unit(bits) * cumulative.back();
  auto found = std::upper_bound(cumulative.begin(), cumulative.end(), at);
  // Rounding may give the total itself: then it is the last vertex that has any weight.
  if (found == cumulative.end()) {
    found = std::lower_bound(cumulative.begin(), cumulative.end(), cumulative.back());
  }
  return found - cumulative.begin();
}

}  // namespace

template <typename Id>
void cumulate_nodes(const Topology<Id>& graph, std::span<double> cumulative) {
  const std::int64_t n = graph.num_nodes();
  std::fill(cumulative.begin(), cumulative.end(), 0.0);
  for (std::int64_t v = 0; v < n; ++v) {
    const auto at = static_cast<std::size_t>(v);
    const double entry = 1.0 / static_cast<double>(degree(graph, v) + 1);
    for (std::int64_t e = graph.indptr[at]; e < graph.indptr[at + 1]; ++e) {
      cumulative[static_cast<std::size_t>(graph.indices[static_cast<std::size_t>(e)])] +=
          entry * entry;
    }
    cumulative[at] += entry * entry;
  }
  for (std::size_t v = 1; v < cumulative.size(); ++v) cumulative[v] += cumulative[v - 1];
}

template <typename Id>
void cumulate_edges(const Topology<Id>& graph, std::span<double> cumulative) {
  double total = 0;
  for (std::size_t v = 0; v < cumulative.size(); ++v) {
    const double own = inverse_degree(graph, static_cast<std::int64_t>(v));
    for (std::int64_t e = graph.indptr[v]; e < graph.indptr[v + 1]; ++e) {
      const auto u = static_cast<std::int64_t>(graph.indices[static_cast<std::size_t>(e)]);
      total += own + inverse_degree(graph, u);
    }
    cumulative[v] = total;
  }
}

template <typename Id>
void draw_nodes(std::span<const double> cumulative, std::uint64_t key, std::span<Id> out) {
  const std::uint64_t layer = layer_key(key, 0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<Id>(invert(cumulative, draw(layer, i)));
  }
}

template <typename Id>
void draw_edges(const Topology<Id>& graph, std::span<const double> cumulative, std::uint64_t key,
                std::span<Id> out) {
  const std::uint64_t targets = layer_key(key, 0), positions = layer_key(key, 1);
  for (std::size_t i = 0; i < out.size() / 2; ++i) {
    const std::int64_t v = invert(cumulative, draw(targets, i));
    const auto at = static_cast<std::size_t>(v);
    const double own = inverse_degree(graph, v);
    double total = 0;
    for (std::int64_t e = graph.indptr[at]; e < graph.indptr[at + 1]; ++e) {
      const auto u = static_cast<std::int64_t>(graph.indices[static_cast<std::size_t>(e)]);
      total += own + inverse_degree(graph, u);
    }
    const double wanted = to_unit(draw(positions, i)) * total;
    std::int64_t e = graph.indptr[at];
    const std::int64_t last = graph.indptr[at + 1] - 1;
    for (double sum = 0; e < last; ++e) {
      const auto u = static_cast<std::int64_t>(graph.indices[static_cast<std::size_t>(e)]);
      sum += own + inverse_degree(graph, u);
      if (sum > wanted) break;
    }
    out[2 * i] = graph.indices[static_cast<std::size_t>(e)];
    out[2 * i + 1] = static_cast<Id>(v);
  }
}

void draw_sets(std::int64_t population, std::int64_t size, std::uint64_t key, std::uint64_t first,
               std::span<std::int64_t> out) {
  if (size < 1 || size > population || population >= std::int64_t{1} << 32) {
    throw InputError("cannot draw " + std::to_string(size) + " distinct numbers of " +
                     std::to_string(population));
  }
  PickScratch scratch;
  std::vector<std::uint32_t> picks(static_cast<std::size_t>(size));
  const auto step = static_cast<std::size_t>(size);
  for (std::size_t row = 0; row < out.size() / step; ++row) {
    pick_distinct(derive(key, first + row), static_cast<std::uint32_t>(population),
                  static_cast<std::uint32_t>(size), picks.data(), scratch);
    std::copy(picks.begin(), picks.end(), out.begin() + static_cast<std::ptrdiff_t>(row * step));
  }
}

#define FOREGATHER_DRAW(Id)                                                             \
  template void cumulate_nodes(const Topology<Id>&, std::span<double>);                 \
  template void cumulate_edges(const Topology<Id>&, std::span<double>);                 \
  template void draw_nodes(std::span<const double>, std::uint64_t, std::span<Id>);      \
  template void draw_edges(const Topology<Id>&, std::span<const double>, std::uint64_t, \
                           std::span<Id>);
FOREGATHER_DRAW(std::uint32_t)
FOREGATHER_DRAW(std::int64_t)
#undef FOREGATHER_DRAW

}  // namespace foregather
