#include "graph/order/breadth.hpp"

#include <algorithm>
#include <string>

namespace foregather {

template <typename Id>
std::vector<std::uint32_t> breadth_first(std::span<const std::int64_t> indptr,
                                         std::span<const Id> indices, Breadth how,
                                         std::span<const std::uint32_t> roots,
                                         std::span<const std::uint32_t> part) {
  const auto nodes = static_cast<std::int64_t>(indptr.size()) - 1;
  if (nodes < 0 || nodes > kMaxNarrowVertices || indptr.front() != 0 ||
      indptr.back() != static_cast<std::int64_t>(indices.size()) ||
      !std::is_sorted(indptr.begin(), indptr.end()) ||
      (!part.empty() && part.size() != static_cast<std::size_t>(nodes))) {
    throw InputError("indptr does not describe indices, or parts do not describe nodes");
  }
  std::vector<std::uint32_t> order;
  order.reserve(static_cast<std::size_t>(nodes));
  std::vector<bool> seen(static_cast<std::size_t>(nodes), false);
  std::size_t head = 0;
  auto visit = [&](std::uint64_t node) {
    if (node >= static_cast<std::uint64_t>(nodes)) {
      throw InputError("the topology names node " + std::to_string(node) + ", expected below " +
                       std::to_string(nodes));
    }
    if (seen[node]) return;
    seen[node] = true;
    order.push_back(static_cast<std::uint32_t>(node));
  };
  auto degree = [&](std::uint32_t node) { return indptr[node + 1] - indptr[node]; };
  auto search = [&](std::uint32_t root) {
    visit(root);
    for (; head < order.size(); ++head) {
      const std::uint32_t node = order[head];
      const std::size_t first = order.size();
      for (std::int64_t k = indptr[node]; k < indptr[node + 1]; ++k) {
        const auto source = static_cast<std::uint64_t>(indices[k]);
        if (part.empty() || source >= part.size() || part[source] == part[node]) visit(source);
      }
      if (how == Breadth::degrees) {
        std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(first), order.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return degree(a) < degree(b); });
      }
    }
  };
  for (const std::uint32_t root : roots) search(root);
  for (std::int64_t node = 0; node < nodes; ++node) search(static_cast<std::uint32_t>(node));
  if (how == Breadth::degrees) std::reverse(order.begin(), order.end());
  return order;
}

#define FOREGATHER_BREADTH(Id)                                                                     \
  template std::vector<std::uint32_t> breadth_first<Id>(                                           \
      std::span<const std::int64_t>, std::span<const Id>, Breadth, std::span<const std::uint32_t>, \
      std::span<const std::uint32_t>);
FOREGATHER_BREADTH(std::uint32_t)
FOREGATHER_BREADTH(std::int64_t)
#undef FOREGATHER_BREADTH

}  // namespace foregather
