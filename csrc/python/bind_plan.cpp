#include "arrays.hpp"
#include "foregather/plan.hpp"
#include "plan_object.hpp"

namespace foregather::python {
namespace {

template <typename T>
std::vector<T> copied(const In<T>& array) {
  return {array.data(), array.data() + array.shape(0)};
}

using Longs = In<std::int64_t>;
using Words = In<std::uint32_t>;

template <auto Member>
void bind_array(nb::class_<PlanObject>& type, const char* name) {
  type.def_prop_ro(
      name,
      [](nb::object self) {
        const auto& values = nb::cast<PlanObject&>(self).plan.get()->*Member;
        using T = typename std::decay_t<decltype(values)>::value_type;
        return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(values.data(), {values.size()}, self);
      },
      nb::rv_policy::automatic);
}

}  // namespace

void bind_plan(nb::module_& m) {
  nb::class_<Geometry>(m, "Geometry", "Where feature rows lie in their file; see plan.hpp.")
      .def(nb::init<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>(),
           nb::arg("num_rows"), nb::arg("row_bytes"), nb::arg("payload"), nb::arg("file_bytes"),
           nb::arg("block_bytes"))
      .def_ro("num_rows", &Geometry::num_rows)
      .def_ro("row_bytes", &Geometry::row_bytes)
      .def_ro("payload", &Geometry::payload)
      .def_ro("file_bytes", &Geometry::file_bytes)
      .def_ro("block_bytes", &Geometry::block_bytes);
  nb::class_<PlanObject> type(m, "Plan", "Which bytes move when, for one bulk; see plan.hpp.");
  type.def(
      "__init__",
      [](PlanObject* self, const Geometry& geometry, std::int64_t num_slots, const Longs& num_rows,
         const Longs& hit_ptr, const Words& hit_slot, const Words& hit_position,
         const Longs& request_ptr, const Longs& request_offset, const Longs& request_length,
         const Longs& copy_ptr, const Words& copy_row, const Words& copy_position,
         const Words& copy_slot) {
        new (self) PlanObject{std::make_shared<const Plan>(
            Plan{geometry, num_slots, copied(num_rows), copied(hit_ptr), copied(hit_slot),
                 copied(hit_position), copied(request_ptr), copied(request_offset),
                 copied(request_length), copied(copy_ptr), copied(copy_row), copied(copy_position),
                 copied(copy_slot)})};
      },
      nb::arg("geometry"), nb::arg("num_slots"), nb::arg("num_rows"), nb::arg("hit_ptr"),
      nb::arg("hit_slot"), nb::arg("hit_position"), nb::arg("request_ptr"),
      nb::arg("request_offset"), nb::arg("request_length"), nb::arg("copy_ptr"),
      nb::arg("copy_row"), nb::arg("copy_position"), nb::arg("copy_slot"));
  type.def_prop_ro("geometry", [](const PlanObject& self) { return self.plan->geometry; });
  type.def_prop_ro("num_slots", [](const PlanObject& self) { return self.plan->num_slots; });
  bind_array<&Plan::num_rows>(type, "num_rows");
  bind_array<&Plan::hit_ptr>(type, "hit_ptr");
  bind_array<&Plan::hit_slot>(type, "hit_slot");
  bind_array<&Plan::hit_position>(type, "hit_position");
  bind_array<&Plan::request_ptr>(type, "request_ptr");
  bind_array<&Plan::request_offset>(type, "request_offset");
  bind_array<&Plan::request_length>(type, "request_length");
  bind_array<&Plan::copy_ptr>(type, "copy_ptr");
  bind_array<&Plan::copy_row>(type, "copy_row");
  bind_array<&Plan::copy_position>(type, "copy_position");
  bind_array<&Plan::copy_slot>(type, "copy_slot");
}

}  // namespace foregather::python
