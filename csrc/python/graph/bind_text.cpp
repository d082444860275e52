#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "graph/text/strings.hpp"
#include "graph/text/text.hpp"
#include "python/arrays.hpp"
#include "python/graph/lines.hpp"

namespace foregather::python {
namespace {

using Taken = std::tuple<std::int64_t, std::int64_t, std::size_t>;  // rows, lines, bytes
using TakenNames = std::tuple<std::int64_t, std::int64_t, std::size_t, std::int64_t>;

template <typename T>
Taken parse_numbers_into(const Lines& lines, const Bytes& text, int width, const Out<T>& out) {
  Released released;
  const TextTaken taken = parse_numbers<T>(lines.piece(text), width, view(out));
  return {taken.rows, taken.lines, taken.bytes};
}

void bind_lines(nb::module_& m) {
  nb::class_<Lines>(m, "Lines", "How to read a piece of a delimited file.")
      .def(nb::init<std::string, std::string, std::int64_t, std::int64_t, bool>(), nb::arg("name"),
           nb::arg("delimiter"), nb::arg("first_line") = 1, nb::arg("skip_before") = 0,
           nb::arg("comments") = true)
      .def_rw("first_line", &Lines::first_line, "Number of the first line of the next piece.")
      .def(
          "parse_integers",
          [](const Lines& self, const Bytes& text, const std::vector<int>& columns,
             const Out<std::int64_t>& out, int weight_column, const Out<float>& weights) {
            Released released;
            const TextTaken taken = parse_integers(self.piece(text), columns, view(out),
                                                   {weight_column, view(weights)});
            return Taken(taken.rows, taken.lines, taken.bytes);
          },
          nb::arg("text").noconvert(), nb::arg("columns").noconvert(), nb::arg("out").noconvert(),
          nb::arg("weight_column"), nb::arg("weights").noconvert(),
          "Columns as int64, column by column; (rows, lines, bytes) taken.")
      .def(
          "parse_strings",
          [](const Lines& self, const Bytes& text, const std::vector<int>& columns,
             const Out<std::uint64_t>& keys, const Out<std::uint8_t>& data,
             const Out<std::int64_t>& offsets, const Out<std::uint64_t>& name_keys,
             int weight_column, const Out<float>& weights) {
            Released released;
            const TextTaken taken = parse_strings(self.piece(text), columns, view(keys),
                                                  {view(data), view(offsets), view(name_keys)},
                                                  {weight_column, view(weights)});
            return TakenNames(taken.rows, taken.lines, taken.bytes, taken.names);
          },
          nb::arg("text").noconvert(), nb::arg("columns").noconvert(), nb::arg("keys").noconvert(),
          nb::arg("data").noconvert(), nb::arg("offsets").noconvert(),
          nb::arg("name_keys").noconvert(), nb::arg("weight_column"),
          nb::arg("weights").noconvert(),
          "Columns as XXH64 keys and names; (rows, lines, bytes, names) taken.")
      .def("parse_numbers", &parse_numbers_into<float>, nb::arg("text").noconvert(),
           nb::arg("width"), nb::arg("out").noconvert(),
           "Lines of `width` numbers as float32; (rows, lines, bytes) taken.")
      .def("parse_numbers", &parse_numbers_into<double>, nb::arg("text").noconvert(),
           nb::arg("width"), nb::arg("out").noconvert(),
           "Lines of `width` numbers as float64; (rows, lines, bytes) taken.");
}

}  // namespace

void bind_text(nb::module_& m) {
  bind_lines(m);
  m.def(
      "split_fields",
      [](const Bytes& line, const std::string& delimiter) {
        const auto* data = reinterpret_cast<const char*>(line.data());
        std::vector<nb::bytes> fields;
        for (const std::string& field : split_fields({data, line.shape(0)}, Lines::one(delimiter)))
          fields.emplace_back(field.data(), field.size());
        return fields;
      },
      nb::arg("line"), nb::arg("delimiter"), "The fields of one line, as the parsers see them.");
  m.def(
      "hash_strings",
      [](const Bytes& data, const In<std::int64_t>& offsets, const Out<std::uint64_t>& keys,
         std::uint64_t seed) {
        Released released;
        hash_strings({data.data(), data.shape(0)}, view(offsets), view(keys), seed);
      },
      nb::arg("data").noconvert(), nb::arg("offsets").noconvert(), nb::arg("keys").noconvert(),
      nb::arg("seed") = 0, "XXH64 of each string data[offsets[i]:offsets[i + 1]].");
}

}  // namespace foregather::python
