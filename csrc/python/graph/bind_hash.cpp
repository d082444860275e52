#include <array>

#include "base/hash.hpp"
#include "base/random.hpp"
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
  m.def(
      "pair_keys",
      [](const In<std::int64_t>& first, const In<std::int64_t>& second, std::uint64_t seed,
         const Out<std::uint64_t>& keys) {
        const auto a = view(first);
        const auto b = view(second);
        const auto out = view(keys);
        if (a.size() != b.size() || a.size() != out.size()) {
          throw InputError("pairs and keys differ in number");
        }
        Released released;
        constexpr std::uint64_t kPurpose = 0x4C494E4B53u;  // "LINKS"
        const std::uint64_t start = fold_key(std::array{seed, kPurpose});
        for (std::size_t i = 0; i < out.size(); ++i) {
          const auto one = derive(start, static_cast<std::uint64_t>(a[i]));
          out[i] = derive(one, static_cast<std::uint64_t>(b[i]));
        }
      },
      nb::arg("first").noconvert(), nb::arg("second").noconvert(), nb::arg("seed"),
      nb::arg("keys").noconvert(), "A key of each pair of ids; see random.hpp.");
}

}  // namespace foregather::python
