#include <nanobind/stl/tuple.h>

#include <tuple>

#include "graph/check.hpp"
#include "python/arrays.hpp"

namespace foregather::python {
namespace {

template <typename Id>
void bind_ids(nb::module_& m) {
  m.def(
      "check_ids",
      [](const In<Id>& ids, std::int64_t num_nodes, int threads) {
        Released released;
        return check_ids<Id>(view(ids), num_nodes, threads);
      },
      nb::arg("ids").noconvert(), nb::arg("num_nodes"), nb::arg("threads") = 0,
      "Position of the first id outside 0 to num_nodes - 1, or -1.");
  m.def(
      "check_rows",
      [](const In<std::int64_t>& indptr, const In<Id>& indices, std::int64_t start) {
        Released released;
        return check_rows<Id>(view(indptr), view(indices), start);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("start"),
      "Position in a chunk of the first id below its predecessor in the same row, or -1.");
  m.def(
      "count_ids",
      [](const In<Id>& ids, const Out<std::int64_t>& counts) {
        Released released;
        count_ids<Id>(view(ids), view(counts));
      },
      nb::arg("ids").noconvert(), nb::arg("counts").noconvert(),
      "Adds 1 to counts[id] for each id.");
  m.def(
      "count_edges",
      [](const In<std::int64_t>& indptr, std::int64_t first_row, const In<Id>& indices,
         std::int64_t start, std::int64_t skip, const In<std::int64_t>& labels, int threads) {
        EdgeCounts sum;
        {
          Released released;
          sum = count_edges<Id>(view(indptr), first_row, view(indices), start, skip, view(labels),
                                threads);
        }
        return std::make_tuple(sum.self_loops, sum.duplicates, sum.labelled, sum.same_label,
                               sum.skew);
      },
      nb::arg("indptr").noconvert(), nb::arg("first_row"), nb::arg("indices").noconvert(),
      nb::arg("start"), nb::arg("skip"), nb::arg("labels").noconvert(), nb::arg("threads") = 0,
      "Counts over a chunk: (self_loops, duplicates, labelled, same_label, skew).");
}

}  // namespace

void bind_check(nb::module_& m) {
  m.def(
      "check_indptr",
      [](const In<std::int64_t>& indptr, std::int64_t previous) {
        Released released;
        return check_indptr(view(indptr), previous);
      },
      nb::arg("indptr").noconvert(), nb::arg("previous"),
      "Position of the first value below its predecessor, or -1.");
  bind_ids<std::uint32_t>(m);
  bind_ids<std::int64_t>(m);
}

}  // namespace foregather::python
