#include "graph/order/breadth.hpp"
#include "graph/order/communities.hpp"
#include "python/arrays.hpp"

namespace foregather::python {
namespace {

template <typename Id>
void bind_ids(nb::module_& m, nb::class_<Communities>& communities) {
  communities.def(
      "feed",
      [](Communities& self, std::int64_t first_row, const In<std::int64_t>& indptr,
         const In<Id>& indices, int threads) {
        Released released;
        return self.feed<Id>(first_row, view(indptr), view(indices), threads);
      },
      nb::arg("first_row"), nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
      nb::arg("threads") = 0, "Feeds rows in order, each once a pass; returns how many moved.");
  m.def(
      "add_visits",
      [](const In<std::int64_t>& indptr, const In<Id>& indices, std::int64_t fanout,
         const Out<std::uint64_t>& score) {
        Released released;
        add_visits<Id>(view(indptr), view(indices), fanout, view(score));
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("fanout"),
      nb::arg("score").noconvert(),
      "Adds to score[source] the chance that each target draws it, in 2^-20.");
  m.def(
      "breadth_first",
      [](const In<std::int64_t>& indptr, const In<Id>& indices, bool by_degree,
         const In<std::uint32_t>& roots, const In<std::uint32_t>& part) {
        std::vector<std::uint32_t> made;
        {
          Released released;
          made = breadth_first<Id>(view(indptr), view(indices),
                                   by_degree ? Breadth::degrees : Breadth::rows, view(roots),
                                   view(part));
        }
        return to_numpy(std::move(made));
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("by_degree"),
      nb::arg("roots").noconvert(), nb::arg("part").noconvert(),
      "Nodes in the order of a breadth-first search from targets to sources.");
}

}  // namespace

void bind_order(nb::module_& m) {
  nb::class_<Communities> communities(m, "Communities",
                                      "Label propagation over a stream of rows, level by level.");
  communities.def(nb::init<std::int64_t>(), nb::arg("num_nodes"))
      .def("begin_level", &Communities::begin_level, nb::arg("cap"),
           "Begins a level inside the labels so far, of labels of at most `cap` nodes.")
      .def_prop_ro("block", &Communities::block, "Rows that vote together.")
      .def(
          "labels",
          [](const Communities& self) {
            const auto all = self.labels();
            return to_numpy(std::vector<std::uint32_t>(all.begin(), all.end()));
          },
          "A copy of the labels: uint32, one a node.");
  bind_ids<std::uint32_t>(m, communities);
  bind_ids<std::int64_t>(m, communities);
}

}  // namespace foregather::python
