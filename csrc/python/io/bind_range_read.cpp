#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>

#include "io/files/range_read.hpp"
#include "python/arrays.hpp"

namespace foregather::python {
namespace {

void read(int descriptor, const std::string& name, std::int64_t position,
          const Out<std::uint8_t>& into, std::shared_ptr<BlockSums> sums, int threads,
          std::shared_ptr<Faults> faults) {
  Released released;
  read_range(descriptor, name, position, std::as_writable_bytes(view(into)), sums.get(), threads,
             faults.get());
}

}  // namespace

void bind_range_read(nb::module_& m, nb::module_& testing) {
  m.def(
      "read_range",
      [](int descriptor, const std::string& name, std::int64_t position,
         const Out<std::uint8_t>& into, std::shared_ptr<BlockSums> sums, int threads) {
        read(descriptor, name, position, into, std::move(sums), threads, nullptr);
      },
      nb::arg("descriptor"), nb::arg("name"), nb::arg("position"), nb::arg("into").noconvert(),
      nb::arg("sums").none(), nb::arg("threads") = 0,
      "Fills a uint8 array with the bytes from a position of a file on, each block checked.");
  testing.def("read_range", &read, nb::arg("descriptor"), nb::arg("name"), nb::arg("position"),
              nb::arg("into").noconvert(), nb::arg("sums").none(), nb::arg("threads") = 0,
              nb::arg("faults").none() = nb::none(), "The same with faults.");
}

}  // namespace foregather::python
