#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/text/table.hpp"
#include "python/arrays.hpp"
#include "python/graph/lines.hpp"

namespace foregather::python {
namespace {

// The columns of a table and the classes met so far.
struct Table {
  TableColumns columns;
  std::vector<Classes> known;
};

}  // namespace

void bind_table(nb::module_& m) {
  m.attr("NO_TIME") = kNoTime;
  nb::class_<Table>(m, "Table", "Reads the rows of a node table.")
      .def(
          "__init__",
          [](Table* self, int count, int id, bool text_ids, int time, bool dates,
             std::vector<int> numbers, std::vector<int> classes) {
            std::vector<Classes> known(classes.size());
            new (self)
                Table{{count, id, text_ids, time, dates, std::move(numbers), std::move(classes)},
                      std::move(known)};
          },
          nb::kw_only(), nb::arg("count"), nb::arg("id"), nb::arg("text_ids"), nb::arg("time"),
          nb::arg("dates"), nb::arg("numbers"), nb::arg("classes"))
      .def(
          "parse",
          [](Table& self, const Lines& lines, const Bytes& text,
             const Out<std::int64_t>& numbers_of, const Out<std::uint64_t>& ids,
             const Out<std::uint8_t>& data, const Out<std::int64_t>& offsets,
             const Out<std::uint64_t>& name_keys, const Out<double>& numbers,
             const Out<std::int32_t>& classes, const Out<std::int64_t>& times) {
            Released released;
            auto* signed_ids = reinterpret_cast<std::int64_t*>(ids.data());
            const TableRows rows{view(numbers_of), {signed_ids, ids.shape(0)},
                                 view(ids),        {view(data), view(offsets), view(name_keys)},
                                 view(numbers),    view(classes),
                                 view(times)};
            const TextTaken taken = parse_table(lines.piece(text), self.columns, rows, self.known);
            return std::tuple(taken.rows, taken.lines, taken.bytes, taken.names);
          },
          nb::arg("lines"), nb::arg("text").noconvert(), nb::arg("line_numbers").noconvert(),
          nb::arg("ids").noconvert(), nb::arg("data").noconvert(), nb::arg("offsets").noconvert(),
          nb::arg("name_keys").noconvert(), nb::arg("numbers").noconvert(),
          nb::arg("classes").noconvert(), nb::arg("times").noconvert(),
          "Fills the arrays; ids are int64 or keys in the same bits; (rows, lines, bytes, names).")
      .def(
          "classes",
          [](const Table& self, std::size_t column) {
            if (column >= self.known.size()) throw InputError("there is no such class column");
            return self.known[column].names();
          },
          nb::arg("column"), "The classes of a column in the order of their numbers.");
  m.def(
      "parse_time", [](const std::string& text) { return parse_time(text); }, nb::arg("text"),
      "Microseconds since 1970 of an ISO 8601 date or date and time; None where it is neither.");
}

}  // namespace foregather::python
