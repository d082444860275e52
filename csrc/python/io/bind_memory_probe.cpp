#include "io/memory_probe.hpp"
#include "python/arrays.hpp"

namespace foregather::python {

void bind_memory_probe(nb::module_& testing) {
  testing.def(
      "read_lines",
      [](const In<std::uint64_t>& words, const In<std::uint32_t>& index, int distance,
         int threads) {
        Released released;
        return read_lines(view(words), view(index), distance, threads);
      },
      nb::arg("words").noconvert(), nb::arg("index").noconvert(), nb::arg("distance"),
      nb::arg("threads") = 1, "Reads 64-byte lines at random; returns the sum of first words.");
}

}  // namespace foregather::python
