#include <nanobind/stl/vector.h>

#include <string>
#include <utility>

#include "arrays.hpp"
#include "foregather/plan.hpp"
#include "plan_views.hpp"

namespace foregather::python {
namespace {

template <typename T>
std::vector<T> copied(const In<T>& array) {
  return {array.data(), array.data() + array.shape(0)};
}

using I64 = In<std::int64_t>;
using U32 = In<std::uint32_t>;

void make_plan(Plan* self, const Geometry& geometry, std::int64_t num_slots, const I64& num_rows,
               const I64& hit_ptr, const U32& hit_slot, const U32& hit_position,
               const I64& request_ptr, const I64& request_offset, const I64& request_length,
               const I64& copy_ptr, const U32& copy_row, const U32& copy_position,
               const U32& copy_slot) {
  Plan plan{geometry,
            num_slots,
            copied(num_rows),
            copied(hit_ptr),
            copied(hit_slot),
            copied(hit_position),
            copied(request_ptr),
            copied(request_offset),
            copied(request_length),
            copied(copy_ptr),
            copied(copy_row),
            copied(copy_position),
            copied(copy_slot)};
  check_plan(plan);
  new (self) Plan(std::move(plan));
}

template <typename T>
void view_of(nb::class_<Plan>& type, const char* name, std::vector<T> Plan::* field) {
  type.def_prop_ro(
      name,
      [field](nb::handle self) {
        const std::vector<T>& values = nb::cast<const Plan&>(self).*field;
        return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(values.data(), {values.size()}, self);
      },
      nb::sig(("def " + std::string(name) + "(self) -> numpy.typing.NDArray[numpy." +
               (sizeof(T) == 8 ? "int64]" : "uint32]"))
                  .c_str()));
}

Facts counts(const Plan& plan) {
  const PlanCounts n = count_plan(plan);
  Facts facts;
  facts["rows"] = n.rows;
  facts["hits"] = n.hits;
  facts["misses"] = n.misses;
  facts["riders"] = n.riders;
  facts["kept"] = n.kept;
  facts["requests"] = n.requests;
  facts["blocks"] = n.blocks;
  facts["bytes"] = n.bytes;
  facts["useful_bytes"] = n.useful_bytes;
  facts["longest"] = n.longest;
  return facts;
}

void bind_geometry(nb::module_& m) {
  nb::class_<Geometry>(m, "Geometry", "Where rows lie in their file; see plan.hpp.")
      .def(
          "__init__",
          [](Geometry* self, std::int64_t num_rows, std::int64_t row_bytes, std::int64_t payload,
             std::int64_t file_bytes, std::int64_t block_bytes) {
            const Geometry made{num_rows, row_bytes, payload, file_bytes, block_bytes};
            check_geometry(made);
            new (self) Geometry(made);
          },
          nb::arg("num_rows"), nb::arg("row_bytes"), nb::arg("payload"), nb::arg("file_bytes"),
          nb::arg("block_bytes"))
      .def_ro("num_rows", &Geometry::num_rows)
      .def_ro("row_bytes", &Geometry::row_bytes)
      .def_ro("payload", &Geometry::payload)
      .def_ro("file_bytes", &Geometry::file_bytes)
      .def_ro("block_bytes", &Geometry::block_bytes)
      .def("__eq__", [](const Geometry& a, const Geometry& b) { return a == b; });
}

}  // namespace

void bind_plan(nb::module_& m) {
  bind_geometry(m);
  nb::class_<Plan> type(m, "Plan", "Which bytes move when, for one bulk; see plan.hpp.");
  type.def("__init__", &make_plan, nb::arg("geometry"), nb::arg("num_slots"), nb::arg("num_rows"),
           nb::arg("hit_ptr"), nb::arg("hit_slot"), nb::arg("hit_position"), nb::arg("request_ptr"),
           nb::arg("request_offset"), nb::arg("request_length"), nb::arg("copy_ptr"),
           nb::arg("copy_row"), nb::arg("copy_position"), nb::arg("copy_slot"),
           "Copies the arrays and checks them; InputError where they are no plan.");
  type.def_ro("geometry", &Plan::geometry)
      .def_ro("num_slots", &Plan::num_slots)
      .def_ro("row_bound", &Plan::row_bound)
      .def_ro("block_bound", &Plan::block_bound)
      .def("counts", &counts, "Rows, hits, misses, requests, bytes and so on.")
      .def("__len__", &Plan::steps);
  view_of(type, "num_rows", &Plan::num_rows);
  view_of(type, "hit_ptr", &Plan::hit_ptr);
  view_of(type, "hit_slot", &Plan::hit_slot);
  view_of(type, "hit_position", &Plan::hit_position);
  view_of(type, "request_ptr", &Plan::request_ptr);
  view_of(type, "request_offset", &Plan::request_offset);
  view_of(type, "request_length", &Plan::request_length);
  view_of(type, "copy_ptr", &Plan::copy_ptr);
  view_of(type, "copy_row", &Plan::copy_row);
  view_of(type, "copy_position", &Plan::copy_position);
  view_of(type, "copy_slot", &Plan::copy_slot);
}

}  // namespace foregather::python
