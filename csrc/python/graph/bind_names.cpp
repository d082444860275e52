#include <nanobind/stl/pair.h>

#include <utility>

#include "graph/text/name_table.hpp"
#include "python/arrays.hpp"

namespace foregather::python {

void bind_names(nb::module_& m) {
  nb::class_<NameTable>(m, "NameTable", "The distinct names of a stream, in a budget of bytes.")
      .def(nb::init<std::size_t>(), nb::arg("budget"))
      .def(
          "add",
          [](NameTable& self, const Bytes& data, const In<std::int64_t>& offsets,
             const In<std::uint64_t>& keys, std::size_t first) {
            Released released;
            return self.add({data.data(), data.shape(0)}, view(offsets), view(keys), first);
          },
          nb::arg("data").noconvert(), nb::arg("offsets").noconvert(), nb::arg("keys").noconvert(),
          nb::arg("first") = 0,
          "Adds names from `first` on; the number of the first that found no room.")
      .def("__len__", &NameTable::size)
      .def("next_length", &NameTable::next_length,
           "Length of the name that next() starts with, 0 after the last.")
      .def(
          "next",
          [](NameTable& self, const Out<std::uint64_t>& keys, const Out<std::int64_t>& lengths,
             const Out<std::uint8_t>& text) {
            Released released;
            const NameTable::Taken taken = self.next(view(keys), view(lengths), view(text));
            return std::pair(taken.names, taken.bytes);
          },
          nb::arg("keys").noconvert(), nb::arg("lengths").noconvert(), nb::arg("text").noconvert(),
          "Fills the arrays with the next names by ascending key; (names, bytes) taken.")
      .def("clear", &NameTable::clear, "Forgets every name and frees the memory.");
}

}  // namespace foregather::python
