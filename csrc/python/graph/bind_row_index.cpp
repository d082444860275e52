#include <string>

#include "graph/row_index.hpp"
#include "python/arrays.hpp"

namespace foregather::python {
namespace {

void spans(const RowIndex& self, const In<std::int64_t>& rows, const Out<std::int64_t>& start,
           const Out<std::int64_t>& degree) {
  if (start.shape(0) != rows.shape(0) || degree.shape(0) != rows.shape(0)) {
    throw InputError("start and degree must hold one number for each row");
  }
  const auto asked = view(rows);
  Released released;
  self.finish();
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] < 0 || asked[i] >= self.num_nodes()) {
      throw InputError("row " + std::to_string(asked[i]) + " is asked for; expected rows 0 to " +
                       std::to_string(self.num_nodes() - 1));
    }
    const RowSpan row = self.row(asked[i]);
    start.data()[i] = row.start;
    degree.data()[i] = row.degree;
  }
}

}  // namespace

void bind_row_index(nb::module_& m) {
  nb::class_<RowIndex>(m, "RowIndex", "Starts and lengths of rows in 2.25 bytes a node.")
      .def(nb::init<std::int64_t, std::int64_t>(), nb::arg("num_nodes"), nb::arg("num_edges"))
      .def(
          "append",
          [](RowIndex& self, const In<std::int64_t>& ends) {
            const auto rows = view(ends);
            Released released;
            self.append(rows);
          },
          nb::arg("ends").noconvert(), "The next piece of indptr, without its leading 0.")
      .def("spans", &spans, nb::arg("rows").noconvert(), nb::arg("start").noconvert(),
           nb::arg("degree").noconvert(), "Fills in where these rows start and how long they are.")
      .def_static("bytes", &RowIndex::bytes, nb::arg("num_nodes"), nb::arg("num_edges"),
                  "The most bytes an index can take.");
}

}  // namespace foregather::python
