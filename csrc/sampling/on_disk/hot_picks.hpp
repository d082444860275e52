// Picks from held lists: resolved before blocks are marked. Private to the disk sampler.
#pragma once

#include <cstdint>

#include "sampling/on_disk/disk_layer.hpp"
#include "sampling/on_disk/hot_rows.hpp"

namespace foregather {

/// Calls put(edge, id) for the picks in [begin, end) of rows whose list is held, and returns their
/// number. Picks of a row lie side by side, so a row is looked up once. What is resolved has its
/// position complemented until restore_hot: the steps between pass over it.
template <typename Id, typename Put>
std::int64_t take_hot(const Growing<Id>& batch, std::int64_t begin, std::int64_t end,
                      const HotRows<Id>& hot, const RowIndex& index, Put&& put) {
  std::int64_t* edge = batch.out->edge.data();
  const std::uint32_t* col = batch.out->col.data();
  std::int64_t taken = 0;
  for (std::int64_t e = begin; e < end;) {
    const std::uint32_t target = col[e];
    const auto row = static_cast<std::int64_t>(batch.out->node[target]);
    const Id* list = hot.list(row);
    const std::int64_t start = list == nullptr ? 0 : index.row(row).start;
    for (; e < end && col[e] == target; ++e) {
      if (list == nullptr) continue;
      put(e, list[edge[e] - start]);
      edge[e] = ~edge[e];
      ++taken;
    }
  }
  return taken;
}

template <typename Id>
void restore_hot(const Growing<Id>& batch, std::int64_t begin, std::int64_t end) {
  std::int64_t* edge = batch.out->edge.data();
  for (std::int64_t e = begin; e < end; ++e) edge[e] = edge[e] < 0 ? ~edge[e] : edge[e];
}

}  // namespace foregather
