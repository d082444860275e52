#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "io/checksums/block_sums.hpp"
#include "io/files/probe_ways.hpp"
#include "io/reading/reader.hpp"
#include "python/arrays.hpp"
#include "python/io/read_facts.hpp"

namespace foregather::python {
namespace {

using Memory = Out<std::uint8_t>;

std::span<std::byte> writable(const Memory& array) {
  return {reinterpret_cast<std::byte*>(array.data()), array.shape(0)};
}

// A reader and the array it may have pinned: the array cannot be freed while the kernel holds it.
struct Reader {
  Reader(const std::string& path, const std::string& backend, int depth, const std::string& name,
         std::shared_ptr<BlockSums> sums)
      : core(path, parse_backend(backend), depth, name, std::move(sums)) {}
  BlockReader core;
  Memory kept;
};

void read(Reader& self, const In<std::int64_t>& offset, const In<std::int64_t>& length,
          const In<std::int64_t>& destination, const Memory& buffer) {
  const Requests requests{view(offset), view(length), view(destination)};
  Released released;
  self.core.read(requests, writable(buffer));
}

bool attach(Reader& self, const Memory& memory) {
  bool pinned;
  {
    Released released;
    pinned = self.core.attach(writable(memory));
  }
  self.kept = memory;
  return pinned;
}

Facts counters(const Reader& self) {
  const ReadCounters counted = self.core.counters();
  Facts facts;
  tell_reads(facts, counted);
  facts["seconds"] = counted.seconds;
  return facts;
}

Facts probe_reader(const std::string& path) {
  Probe found;
  {
    Released released;
    found = probe(path);
  }
  nb::dict backends;
  for (const BackendStatus& status : found.backends) {
    backends[backend_name(status.backend)] =
        status.works ? nb::object(nb::none()) : nb::object(nb::cast(status.reason));
  }
  Facts facts;
  facts["backends"] = backends;
  facts["alignment"] = found.alignment;
  facts["deferred"] = found.deferred;
  return facts;
}

}  // namespace

void bind_reader(nb::module_& m) {
  nb::class_<Reader>(m, "BlockReader", "Executes lists of reads of one file; see reader.hpp.")
      .def(nb::init<const std::string&, const std::string&, int, const std::string&,
                    std::shared_ptr<BlockSums>>(),
           nb::arg("path"), nb::arg("backend"), nb::arg("depth") = 64, nb::arg("name") = "",
           nb::arg("sums").none() = nb::none(), nb::call_guard<Released>())
      // noconvert: a converted copy of the buffer would take the bytes and be thrown away
      .def("read", &read, nb::arg("offset").noconvert(), nb::arg("length").noconvert(),
           nb::arg("destination").noconvert(), nb::arg("buffer").noconvert(),
           "Reads length[i] bytes at offset[i] to buffer[destination[i]:].")
      .def("attach", &attach, nb::arg("buffer").noconvert(),
           "Pins a buffer for the reads to come; False where that is refused or useless.")
      .def_prop_ro("backend", [](const Reader& self) { return backend_name(self.core.backend()); })
      .def_prop_ro("depth", [](const Reader& self) { return self.core.depth(); })
      .def_prop_ro("alignment", [](const Reader& self) { return self.core.alignment(); })
      .def_prop_ro("pin_refusal", [](const Reader& self) { return self.core.pin_refusal(); })
      .def("counters", &counters, "Requests, bytes, submissions, retries and seconds so far.");
  m.def("probe_reader", &probe_reader, nb::arg("path"),
        "Tries every backend in a folder: {backends: {name: None or the reason it does not work}, "
        "alignment, deferred}.");
}

}  // namespace foregather::python
