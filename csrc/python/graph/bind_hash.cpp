#include "base/hash.hpp"
#include "python/arrays.hpp"

namespace foregather::python {

void bind_hash(nb::module_& m) {
  m.def(
      "xxh64",
      [](const Bytes& data, std::uint64_t seed) {
        Released released;
        return xxh64(bytes(data), seed);
      },
      nb::arg("data").noconvert(), nb::arg("seed") = 0, "XXH64 of a uint8 array.");
  nb::class_<Xxh64>(m, "Xxh64", "Incremental XXH64 over uint8 arrays.")
      .def(nb::init<std::uint64_t>(), nb::arg("seed") = 0)
      .def(
          "update",
          [](Xxh64& self, const Bytes& data) {
            Released released;
            self.update(bytes(data));
          },
          nb::arg("data").noconvert(), "Appends the bytes of a uint8 array.")
      .def("digest", &Xxh64::digest, "The digest of all bytes so far.");
}

}  // namespace foregather::python
