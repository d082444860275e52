#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>

#include "io/files/scratch_file.hpp"
#include "io/repacking/sweep.hpp"
#include "python/arrays.hpp"
#include "python/io/read_facts.hpp"

namespace foregather::python {
namespace {

void make(Sweeper* self, const std::string& path, const std::string& name, const Geometry& geometry,
          std::int64_t staging_bytes, std::int64_t write_bytes, const std::string& backend,
          int depth, std::shared_ptr<BlockSums> sums) {
  SweepOptions options{staging_bytes, write_bytes, parse_backend(backend), depth};
  options.sums = std::move(sums);
  new (self) Sweeper(path, name, geometry, std::move(options));
}

std::unique_ptr<Sweeper> make_faulty(std::shared_ptr<Faults> faults,
                                     std::shared_ptr<Faults> write_faults, const std::string& path,
                                     const std::string& name, const Geometry& geometry,
                                     std::int64_t staging_bytes, std::int64_t write_bytes,
                                     const std::string& backend, int depth,
                                     std::shared_ptr<BlockSums> sums) {
  SweepOptions options{staging_bytes,  write_bytes,       parse_backend(backend),
                       depth,          std::move(faults), std::move(write_faults),
                       std::move(sums)};
  return std::make_unique<Sweeper>(path, name, geometry, std::move(options));
}

std::shared_ptr<ScratchFile> sweep(Sweeper& self, const RepackPlan& plan,
                                   const std::string& folder) {
  Released released;
  return self.sweep(plan, folder, raise_signals);
}

Facts counters(const Sweeper& self) {
  const SweepCounters counted = self.counters();
  Facts facts;
  facts["sweeps"] = counted.sweeps;
  facts["moves"] = counted.moves;
  facts["writes"] = counted.writes;
  facts["written"] = counted.written;
  tell_reads(facts, counted.reads);
  facts["seconds"] = counted.seconds;
  return facts;
}

}  // namespace

void bind_sweep(nb::module_& m, nb::module_& testing) {
  nb::class_<ScratchFile>(m, "ScratchFile", "A file without a name; see scratch_file.hpp.")
      .def_prop_ro("path", &ScratchFile::path, "What opens it, in this process, while it lives.")
      .def_prop_ro("bytes", &ScratchFile::bytes)
      .def_prop_ro("sums", &ScratchFile::sums, "Block checksums of what was written.")
      .def_prop_ro("direct", &ScratchFile::direct, "Whether it was written past the page cache.");
  nb::class_<Sweeper>(m, "Sweeper", "Carries out the sweeps of repacked bulks; see sweep.hpp.")
      .def("__init__", &make, nb::arg("path"), nb::arg("name"), nb::arg("geometry"),
           nb::arg("staging_bytes"), nb::arg("write_bytes"), nb::arg("backend"),
           nb::arg("depth") = 16, nb::arg("sums").none() = nb::none())
      .def("sweep", &sweep, nb::arg("plan"), nb::arg("folder"),
           "Sweeps the file into a new scratch file.")
      .def("cancel", &Sweeper::cancel, "Ends a running sweep and all later ones.")
      .def("counters", &counters, "Reads, writes and seconds of finished sweeps.")
      .def_static("least_write_bytes", &Sweeper::least_write_bytes, nb::arg("batches"),
                  "The least write_bytes for bulks of this many batches.");
  testing.def("sweeper", &make_faulty, nb::arg("faults").none(), nb::arg("write_faults").none(),
              nb::arg("path"), nb::arg("name"), nb::arg("geometry"), nb::arg("staging_bytes"),
              nb::arg("write_bytes"), nb::arg("backend"), nb::arg("depth") = 16,
              nb::arg("sums").none() = nb::none(), "A Sweeper whose reads and writes meet faults.");
}

}  // namespace foregather::python
