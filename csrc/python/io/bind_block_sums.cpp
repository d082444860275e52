#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <utility>
#include <vector>

#include "io/checksums/block_sums.hpp"
#include "io/checksums/crc32c.hpp"
#include "python/arrays.hpp"

namespace foregather::python {

namespace {

void bind_summer(nb::module_& m) {
  nb::class_<Summer>(m, "Summer", "Sums of the blocks of a payload that comes in pieces.")
      .def(nb::init<>())
      .def(
          "update",
          [](Summer& self, const Bytes& data) {
            std::vector<std::uint32_t> out;
            {
              Released released;
              self.update(bytes(data), out);
            }
            return to_numpy(std::move(out));
          },
          nb::arg("data").noconvert(), "Sums of the blocks that these bytes complete.")
      .def(
          "finish",
          [](Summer& self) {
            std::vector<std::uint32_t> out;
            self.finish(out);
            return to_numpy(std::move(out));
          },
          "The sum of the last block where it is shorter.");
}

}  // namespace

void bind_block_sums(nb::module_& m, nb::module_& testing) {
  m.attr("SUM_BLOCK") = kSumBlock;
  testing.def("crc32c_means", &crc32c_means,
              "What crc32c uses here, such as vpclmulqdq, sse4.2 or table.");
  m.def(
      "crc32c",
      [](const Bytes& data, std::uint32_t before) {
        Released released;
        return crc32c(bytes(data), before);
      },
      nb::arg("data").noconvert(), nb::arg("before") = 0,
      "CRC32C of a uint8 array that follows bytes with the value `before`.");
  bind_summer(m);
  nb::class_<BlockSums>(m, "BlockSums", "A CRC32C for each block of an array file.")
      .def(nb::init<std::string, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                    std::int64_t>(),
           nb::arg("name"), nb::arg("payload"), nb::arg("row_bytes"), nb::arg("offset"),
           nb::arg("first") = 0, nb::arg("last") = -1)
      .def_prop_ro("name", &BlockSums::name)
      .def_prop_ro("payload", &BlockSums::payload)
      .def_prop_ro("offset", &BlockSums::offset)
      .def_prop_ro("first", &BlockSums::first)
      .def_prop_ro(
          "sums",
          [](BlockSums& self) {
            return Made<std::uint32_t>(self.sums().data(), {self.sums().size()});
          },
          nb::rv_policy::reference_internal, "The table itself, to be filled before any check.")
      .def(
          "check",
          [](const BlockSums& self, std::int64_t at, const Bytes& data) {
            Released released;
            self.check(at, bytes(data));
          },
          nb::arg("at"), nb::arg("data").noconvert(),
          "Raises FormatError unless the whole blocks read at byte `at` of the file are right.");
}

}  // namespace foregather::python
