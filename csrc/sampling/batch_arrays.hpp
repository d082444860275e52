// Batch arrays: what tensors of a batch hold of a sample: ids of 64 bits, and labels by id.
//
// A sample has ids as narrow as they may be; models want int64. Each function is one pass over its
// input, on several threads where that is worth a wake-up; results do not depend on their number.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/nodewise/expand.hpp"

namespace foregather {

/// Where the ids of one sample go: nodes, sources and then targets of its edges, edges.
struct BatchIds {
  std::span<std::int64_t> node;  ///< n
  std::span<std::int64_t> ends;  ///< 2 m: `row`, then `col`
  std::span<std::int64_t> edge;  ///< m
};

/// Copies the ids of one sample. Throws InputError where lengths differ.
template <typename Id>
void widen_ids(std::span<const Id> node, std::span<const std::uint32_t> row,
               std::span<const std::uint32_t> col, std::span<const std::int64_t> edge,
               const BatchIds& out, int threads);

/// out[k] = labels[ids[k]]. Label is any integer; an id outside `labels` is an InputError.
template <typename Label, typename Id>
void widen_labels(std::span<const Label> labels, std::span<const Id> ids,
                  std::span<std::int64_t> out, int threads);

}  // namespace foregather
