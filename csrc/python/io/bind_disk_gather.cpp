#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "io/checksums/block_sums.hpp"
#include "io/gathering/disk_gather.hpp"
#include "python/arrays.hpp"
#include "python/io/read_facts.hpp"

namespace foregather::python {
namespace {

using OutMatrix = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;

struct Slots {
  std::shared_ptr<Pages> pages;
};

Form parse_form(const std::string& name) {
  if (name == "stored") return Form::kStored;
  if (name == "half") return Form::kHalf;
  if (name == "scaled") return Form::kScaled;
  throw InputError("form is '" + name + "'; choose stored, half or scaled");
}

DiskOptions options_of(std::int64_t staging_bytes, const std::string& backend, int depth,
                       const std::string& form, const std::optional<In<float>>& scale, int threads,
                       const Slots* slots, std::shared_ptr<BlockSums> sums) {
  DiskOptions options{staging_bytes, parse_backend(backend), depth, parse_form(form), {}, threads};
  if (slots != nullptr) options.slots = slots->pages;
  options.sums = std::move(sums);
  if (scale) options.scale.assign(scale->data(), scale->data() + scale->shape(0));
  return options;
}

void make(DiskGather* self, const std::string& path, const std::string& name,
          const Geometry& geometry, std::int64_t num_slots, std::int64_t staging_bytes,
          const std::string& backend, int depth, const std::string& form,
          const std::optional<In<float>>& scale, int threads, const Slots* slots,
          std::shared_ptr<BlockSums> sums) {
  DiskOptions options =
      options_of(staging_bytes, backend, depth, form, scale, threads, slots, std::move(sums));
  Released released;
  new (self) DiskGather(path, name, geometry, num_slots, std::move(options));
}

using ScaledForm = std::tuple<std::string, std::optional<In<float>>>;  // form and scale

std::unique_ptr<DiskGather> make_faulty(std::shared_ptr<Faults> faults, const std::string& path,
                                        const std::string& name, const Geometry& geometry,
                                        std::int64_t num_slots, std::int64_t staging_bytes,
                                        const std::string& backend, int depth,
                                        const ScaledForm& stored, int threads, const Slots* slots,
                                        std::shared_ptr<BlockSums> sums) {
  const auto& [form, scale] = stored;
  DiskOptions options =
      options_of(staging_bytes, backend, depth, form, scale, threads, slots, std::move(sums));
  options.faults = std::move(faults);
  Released released;
  return std::make_unique<DiskGather>(path, name, geometry, num_slots, std::move(options));
}

void step(DiskGather& self, const OutMatrix& out) {
  const std::span<std::byte> bytes{static_cast<std::byte*>(out.data()),
                                   out.size() * out.itemsize()};
  Released released;
  self.step(bytes, raise_signals);
}

Facts counters(const DiskGather& self) {
  GatherCounters counted;
  {
    Released released;
    counted = self.counters();
  }
  Facts facts;
  facts["steps"] = counted.steps;
  facts["rows"] = counted.rows;
  facts["hits"] = counted.hits;
  facts["riders"] = counted.riders;
  tell_reads(facts, counted.reads);
  facts["waiting"] = counted.waiting;
  facts["copying"] = counted.copying;
  facts["seconds"] = counted.total;
  return facts;
}

}  // namespace

void bind_disk_gather(nb::module_& m, nb::module_& testing) {
  nb::class_<Faults>(testing, "Faults", "Makes reads of a byte range go wrong; see faults.hpp.")
      .def(nb::init<>())
      .def("fail", &Faults::fail, nb::arg("begin"), nb::arg("end"), nb::arg("code"),
           nb::arg("times") = 1, "The next reads there fail with this errno.")
      .def("shorten", &Faults::shorten, nb::arg("begin"), nb::arg("end"), nb::arg("bytes"),
           nb::arg("times") = 1, "The next reads there bring at most this many bytes.")
      .def("delay", &Faults::delay, nb::arg("begin"), nb::arg("end"), nb::arg("milliseconds"),
           nb::arg("times") = 1, "The next reads there come late.");
  nb::class_<Slots>(m, "Slots", "The cache of several executors that take turns.")
      .def(
          "__init__", [](Slots* self, std::int64_t bytes) { new (self) Slots{make_slots(bytes)}; },
          nb::arg("bytes"));
  using Unlocked = nb::call_guard<Released>;
  nb::class_<DiskGather>(m, "DiskGather", "Carries out plans on a file; see disk_gather.hpp.")
      .def("__init__", &make, nb::arg("path"), nb::arg("name"), nb::arg("geometry"),
           nb::arg("num_slots"), nb::arg("staging_bytes"), nb::arg("backend"),
           nb::arg("depth") = 64, nb::arg("form") = "stored",
           nb::arg("scale").noconvert().none() = nb::none(), nb::arg("threads") = 0,
           nb::arg("slots").none() = nb::none(), nb::arg("sums").none() = nb::none())
      .def(
          "append",
          [](DiskGather& self, std::shared_ptr<Plan> plan) { self.append(std::move(plan)); },
          nb::arg("plan"), Unlocked(), "Queues a plan; its reads begin at once.")
      // noconvert: a converted copy of out would take the rows and be thrown away
      .def("step", &step, nb::sig("def step(self, out: numpy.typing.NDArray[typing.Any]) -> None"),
           nb::arg("out").noconvert(), "Carries out the next step into out, [rows, columns].")
      .def("close", &DiskGather::close, Unlocked(), "Ends reading and frees the memory.")
      .def_prop_ro("steps_left", &DiskGather::steps_left, Unlocked())
      .def_prop_ro("next_rows", &DiskGather::next_rows, Unlocked(),
                   "Rows of the next step, -1 if none is queued.")
      .def_prop_ro("memory_bytes", &DiskGather::memory_bytes, "Bytes of slots and staging.")
      .def_prop_ro("pin_refusal", &DiskGather::pin_refusal, Unlocked())
      .def("counters", &counters, "Steps, rows, hits, riders, reads and seconds so far.");
  testing.def("disk_gather", &make_faulty, nb::arg("faults").none(), nb::arg("path"),
              nb::arg("name"), nb::arg("geometry"), nb::arg("num_slots"), nb::arg("staging_bytes"),
              nb::arg("backend"), nb::arg("depth"), nb::arg("form"), nb::arg("threads") = 0,
              nb::arg("slots").none() = nb::none(), nb::arg("sums").none() = nb::none(),
              "A DiskGather whose reads meet faults; form is (form, scale).");
}

}  // namespace foregather::python
