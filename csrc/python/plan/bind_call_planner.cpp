#include <nanobind/stl/shared_ptr.h>

#include "plan/baselines/call_planner.hpp"
#include "python/arrays.hpp"

namespace foregather::python {
namespace {

template <typename Id>
nb::tuple plan(CallPlanner& self, const In<Id>& ids) {
  CallPlan made;
  {
    Released released;
    made = self.plan<Id>(view(ids));
  }
  nb::object inverse = nb::none();
  if (!made.inverse.empty()) inverse = nb::cast(to_numpy(std::move(made.inverse)));
  return nb::make_tuple(std::move(made.plan), inverse);
}

#define FOREGATHER_CALL_SIGNATURE(ID)                  \
  "def plan(self, ids: numpy.typing.NDArray[numpy." ID \
  "]) -> tuple[Plan, numpy.typing.NDArray[numpy.uint32] | None]"

}  // namespace

void bind_call_planner(nb::module_& m) {
  nb::class_<CallPlanner>(m, "CallPlanner",
                          "Plans one call at a time with SIEVE; see call_planner.hpp.")
      .def(nb::init<const Geometry&, std::int64_t, std::int64_t, std::int64_t>(),
           nb::arg("geometry"), nb::arg("num_slots"), nb::arg("gap_bytes"), nb::arg("max_request"))
      .def("plan", &plan<std::uint32_t>, nb::sig(FOREGATHER_CALL_SIGNATURE("uint32")),
           nb::arg("ids").noconvert(), "A plan of one step, and the inverse where ids repeat.")
      .def("plan", &plan<std::int64_t>, nb::sig(FOREGATHER_CALL_SIGNATURE("int64")),
           nb::arg("ids").noconvert())
      .def_prop_ro("memory_bytes", &CallPlanner::memory_bytes, "Bytes of its tables.")
      .def_ro_static("SLOT_BYTES", &SieveSlots::kSlotBytes,
                     "Bytes of its tables per slot, at most.");
}

}  // namespace foregather::python
