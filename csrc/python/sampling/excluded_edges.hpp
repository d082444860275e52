// Excluded edges: what minibatches leave out, as Python hands it over.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <span>
#include <tuple>

#include "python/arrays.hpp"
#include "sampling/links/excluded.hpp"

namespace foregather::python {

using Numbers = std::optional<In<std::int64_t>>;
// (ptr, target or None, source or None, edge or None, tree or None, whether sources ascend in rows)
using Entries = std::tuple<In<std::int64_t>, Numbers, Numbers, Numbers, Numbers, bool>;
using LeftOut = std::optional<Entries>;

inline std::span<const std::int64_t> view_or_none(const Numbers& numbers) {
  return numbers ? view(*numbers) : std::span<const std::int64_t>();
}

/// A view of the entries, which must outlive it.
inline ExcludedEdges excluded_of(const LeftOut& given) {
  if (!given) return {};
  const auto& [ptr, target, source, edge, tree, ascending] = *given;
  return {view(ptr),          view_or_none(target), view_or_none(source),
          view_or_none(edge), view_or_none(tree),   ascending};
}

}  // namespace foregather::python
