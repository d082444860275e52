#include <nanobind/stl/optional.h>

#include <optional>

#include "graph/csc.hpp"
#include "python/arrays.hpp"

namespace foregather::python {
namespace {

// noconvert everywhere: a silently converted output would be written and thrown away.
template <typename Id>
void bind_ids(nb::module_& m) {
  m.def(
      "build_csc",
      [](const In<Id>& source, const In<Id>& target, std::int64_t num_nodes,
         const Out<std::int64_t>& indptr, const Out<Id>& indices,
         const std::optional<Out<std::int64_t>>& order, int threads, bool sort_rows) {
        Released released;
        if (order && order->shape(0) != source.shape(0)) {
          throw InputError("order does not have one entry for each edge");
        }
        build_csc<Id>(view(source), view(target), num_nodes, view(indptr), view(indices),
                      order ? view(*order) : std::span<std::int64_t>{}, threads, sort_rows);
      },
      nb::arg("source").noconvert(), nb::arg("target").noconvert(), nb::arg("num_nodes"),
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
      nb::arg("order").noconvert().none(), nb::arg("threads") = 0, nb::arg("sort_rows") = true,
      "Fills indptr, indices and order (or None) with the CSC form of source[e] -> target[e].");
  m.def(
      "dedup_rows",
      [](const In<std::int64_t>& indptr, const In<Id>& indices, const Out<std::uint8_t>& keep) {
        Released released;
        return dedup_rows<Id>(view(indptr), view(indices), view(keep));
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("keep").noconvert(),
      "Marks repeats of a source in sorted rows with keep[k] = 0; returns their number.");
  m.def(
      "compact_rows",
      [](const In<std::int64_t>& indptr, const Out<Id>& indices, const In<std::uint8_t>& keep,
         const Out<std::int64_t>& new_indptr) {
        Released released;
        return compact_rows<Id>(view(indptr), view(indices), view(keep), view(new_indptr));
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("keep").noconvert(),
      nb::arg("new_indptr").noconvert(),
      "Moves kept edges to the front of indices and fills new_indptr; returns their number.");
}

}  // namespace

void bind_csc(nb::module_& m) {
  bind_ids<std::uint32_t>(m);
  bind_ids<std::int64_t>(m);
}

}  // namespace foregather::python
