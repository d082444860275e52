#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <memory>

#include "io/files/file_map.hpp"
#include "python/arrays.hpp"

namespace foregather::python {

void bind_file_map(nb::module_& m) {
  // A capsule and not a class: graphs may be alive at the end of the process, as arrays may.
  m.def(
      "map_file",
      [](int descriptor, std::size_t size, const std::string& name) {
        auto made = std::make_unique<FileMap>(descriptor, size, name);
        const auto address = reinterpret_cast<std::uintptr_t>(made->data());
        nb::capsule owner(made.get(), [](void* p) noexcept { delete static_cast<FileMap*>(p); });
        made.release();
        return std::pair(address, owner);
      },
      nb::arg("descriptor"), nb::arg("size"), nb::arg("name"),
      "Maps the first bytes of a file read-only: where they are, and what keeps them there.");
}

}  // namespace foregather::python
