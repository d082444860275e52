// Plan views: NumPy batches as the spans that planners take, and arrays of plans as NumPy views.
#pragma once

#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "plan/bounds/bound.hpp"
#include "python/arrays.hpp"

namespace foregather::python {

using BatchList = std::vector<In<std::uint32_t>>;

inline std::vector<std::span<const std::uint32_t>> views(const BatchList& batches) {
  std::vector<std::span<const std::uint32_t>> spans;
  spans.reserve(batches.size());
  for (const auto& batch : batches) spans.push_back(view(batch));
  return spans;
}

/// A read-only view of a vector inside a value, which it keeps alive.
template <typename Owner, typename T>
void vector_view(nb::class_<Owner>& type, const char* name, std::vector<T> Owner::* field) {
  const std::string signature = "def " + std::string(name) +
                                "(self) -> numpy.typing.NDArray[numpy." +
                                (sizeof(T) == 8 ? "int64]" : "uint32]");
  type.def_prop_ro(
      name,
      [field](nb::handle self) {
        const std::vector<T>& values = nb::cast<const Owner&>(self).*field;
        return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(values.data(), {values.size()}, self);
      },
      nb::sig(signature.c_str()));
}

}  // namespace foregather::python
