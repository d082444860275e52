#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <utility>

#include "plan/plan.hpp"
#include "python/arrays.hpp"
#include "python/plan/plan_views.hpp"

namespace foregather::python {
namespace {

template <typename T>
std::vector<T> copied(const In<T>& array) {
  return {array.data(), array.data() + array.shape(0)};
}

using I64 = In<std::int64_t>;
using U32 = In<std::uint32_t>;

using Hits = std::tuple<I64, U32, U32>;         // ptr, slot, position
using Reads = std::tuple<I64, I64, I64>;        // ptr, offset, length
using Copies = std::tuple<I64, U32, U32, U32>;  // ptr, row, position, slot

void make_plan(Plan* self, const Geometry& geometry, std::int64_t num_slots, const I64& num_rows,
               const Hits& hits, const Reads& requests, const Copies& copies) {
  const auto& [hit_ptr, hit_slot, hit_position] = hits;
  const auto& [request_ptr, request_offset, request_length] = requests;
  const auto& [copy_ptr, copy_row, copy_position, copy_slot] = copies;
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
      .def(
          "__eq__",
          [](const Geometry& a, nb::handle other) {
            return nb::isinstance<Geometry>(other) && a == nb::cast<const Geometry&>(other);
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"));
}

}  // namespace

void bind_plan(nb::module_& m) {
  bind_geometry(m);
  nb::class_<Plan> type(m, "Plan", "Which bytes move when, for one bulk; see plan.hpp.");
  type.def("__init__", &make_plan, nb::arg("geometry"), nb::arg("num_slots"),
           nb::arg("num_rows").noconvert(), nb::arg("hits").noconvert(),
           nb::arg("requests").noconvert(), nb::arg("copies").noconvert(),
           "Copies the arrays and checks them; InputError if they are not a plan. hits are (ptr, "
           "slot, position), requests (ptr, offset, length), copies (ptr, row, position, slot).");
  type.def_ro("geometry", &Plan::geometry)
      .def_ro("num_slots", &Plan::num_slots)
      .def_ro("row_bound", &Plan::row_bound)
      .def_ro("block_bound", &Plan::block_bound)
      .def("counts", &counts, "Rows, hits, misses, requests, bytes and so on.")
      .def("__len__", &Plan::steps);
  vector_view(type, "num_rows", &Plan::num_rows);
  vector_view(type, "hit_ptr", &Plan::hit_ptr);
  vector_view(type, "hit_slot", &Plan::hit_slot);
  vector_view(type, "hit_position", &Plan::hit_position);
  vector_view(type, "request_ptr", &Plan::request_ptr);
  vector_view(type, "request_offset", &Plan::request_offset);
  vector_view(type, "request_length", &Plan::request_length);
  vector_view(type, "copy_ptr", &Plan::copy_ptr);
  vector_view(type, "copy_row", &Plan::copy_row);
  vector_view(type, "copy_position", &Plan::copy_position);
  vector_view(type, "copy_slot", &Plan::copy_slot);
}

}  // namespace foregather::python
