#include "graph/key_index.hpp"
#include "graph/spool.hpp"
#include "python/arrays.hpp"

namespace foregather::python {

void bind_spool(nb::module_& m) {
  m.def(
      "partition_records",
      [](const Bytes& records, std::size_t record_bytes, std::size_t key_offset,
         std::size_t key_bytes, std::uint64_t base, int shift, const Out<std::int64_t>& offsets,
         const Out<std::uint8_t>& out, int threads) {
        Released released;
        auto target = view(out);
        partition_records(bytes(records), {record_bytes, key_offset, key_bytes}, base, shift,
                          view(offsets),
                          {reinterpret_cast<std::byte*>(target.data()), target.size()}, threads);
      },
      nb::arg("records").noconvert(), nb::arg("record_bytes"), nb::arg("key_offset"),
      nb::arg("key_bytes"), nb::arg("base"), nb::arg("shift"), nb::arg("offsets").noconvert(),
      nb::arg("out").noconvert(), nb::arg("threads") = 0,
      "Groups records by key range, stably; fills offsets and out.");
  nb::class_<KeyIndex>(m, "KeyIndex", "Finds keys in a sorted array of distinct keys.")
      .def(
          "__init__",
          [](KeyIndex* self, const In<std::uint64_t>& sorted) {
            new (self) KeyIndex(view(sorted));
          },
          nb::arg("sorted").noconvert(), nb::keep_alive<1, 2>())
      .def(
          "find",
          [](const KeyIndex& self, const In<std::uint64_t>& keys,
             const Out<std::int64_t>& positions, int threads) {
            Released released;
            self.find(view(keys), view(positions), threads);
          },
          nb::arg("keys").noconvert(), nb::arg("positions").noconvert(), nb::arg("threads") = 0,
          "Positions of the keys in the sorted array; -1 where absent.");
  m.def(
      "gather_slices",
      [](const Bytes& data, const In<std::int64_t>& starts, const In<std::int64_t>& lengths,
         const Out<std::uint8_t>& out) {
        Released released;
        auto target = view(out);
        gather_slices(bytes(data), view(starts), view(lengths),
                      {reinterpret_cast<std::byte*>(target.data()), target.size()});
      },
      nb::arg("data").noconvert(), nb::arg("starts").noconvert(), nb::arg("lengths").noconvert(),
      nb::arg("out").noconvert(), "Concatenates slices of a byte array.");
}

}  // namespace foregather::python
