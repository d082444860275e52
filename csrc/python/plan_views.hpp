// Plan views: lists of NumPy batches as the spans that planners take.
#pragma once

#include <nanobind/stl/vector.h>

#include <vector>

#include "arrays.hpp"
#include "foregather/bound.hpp"

namespace foregather::python {

using Facts = nb::typed<nb::dict, nb::str, nb::any>;
using BatchList = std::vector<In<std::uint32_t>>;

inline std::vector<std::span<const std::uint32_t>> views(const BatchList& batches) {
  std::vector<std::span<const std::uint32_t>> spans;
  spans.reserve(batches.size());
  for (const auto& batch : batches) spans.push_back(view(batch));
  return spans;
}

}  // namespace foregather::python
