#include <nanobind/stl/pair.h>

#include <algorithm>

#include "plan/baselines/policies.hpp"
#include "plan/bounds/priced_bound.hpp"
#include "plan/planner.hpp"
#include "python/plan/plan_views.hpp"

namespace foregather::python {
namespace {

Made<std::uint32_t> cached(const Planner& self) {
  const std::span<const std::uint32_t> rows = self.cached();
  return to_numpy(std::vector<std::uint32_t>(rows.begin(), rows.end()));
}

void bind_bounds(nb::module_& m);

}  // namespace

void bind_planner(nb::module_& m) {
  nb::class_<Planner>(m, "Planner", "Belady's rule for rows that are read by the block.")
      .def(
          "__init__",
          [](Planner* self, const Geometry& geometry, std::int64_t num_slots,
             std::int64_t merge_gap, std::int64_t max_request, bool riders, bool single,
             bool bounds, std::int64_t steps) {
            new (self) Planner(geometry, num_slots,
                               {merge_gap, max_request, riders, single, bounds, steps});
          },
          nb::arg("geometry"), nb::arg("num_slots"), nb::arg("merge_gap") = 0,
          nb::arg("max_request") = 1 << 20, nb::arg("riders") = true, nb::arg("single") = false,
          nb::arg("bounds") = true, nb::arg("steps") = 0)
      .def(
          "plan",
          [](Planner& self, const BatchList& batches, const BatchList& ahead, bool fill) {
            const auto now = views(batches), later = views(ahead);
            Released released;
            return self.plan(now, later, fill);
          },
          nb::arg("batches").noconvert(), nb::arg("ahead").noconvert() = BatchList{},
          nb::arg("fill") = false,
          "The plan of a bulk, given the batches after it as far as they are known.")
      .def(
          "set_popularity",
          [](Planner& self, const In<std::uint16_t>& popularity) {
            self.set_popularity(view(popularity));
          },
          nb::arg("popularity").noconvert())
      .def("clear", &Planner::clear, "Forgets the content of the cache.")
      .def("begin_bound", &Planner::begin_bound,
           "Begins the block bound anew, with what is in the cache now.")
      .def("cached", &cached, "By slot: the row it holds, or 2^32 - 1.")
      .def_prop_ro("geometry", &Planner::geometry)
      .def_prop_ro("num_slots", &Planner::num_slots);
  m.def(
      "planner_bytes",
      [](const Geometry& geometry, std::int64_t num_slots, std::int64_t accesses,
         std::int64_t steps) {
        return std::max(Planner::bytes(geometry, num_slots, accesses, steps),
                        PagePlanner::bytes(geometry, num_slots, accesses, steps));
      },
      nb::arg("geometry"), nb::arg("num_slots"), nb::arg("accesses"), nb::arg("steps"),
      "The most bytes a planner of rows or of pages uses for bulks of that size, without the plans "
      "it returns.");
  bind_bounds(m);
}

namespace {

void bind_bounds(nb::module_& m) {
  m.def(
      "lower_bounds",
      [](const Geometry& geometry, const BatchList& batches, std::int64_t num_slots,
         const In<std::uint32_t>& rows) {
        const auto spans = views(batches);
        Released released;
        for (const auto& batch : spans) check_rows(geometry, batch);
        check_rows(geometry, view(rows));
        BlockScratch scratch;
        const std::int64_t by_row = row_bound(spans, num_slots, view(rows));
        return std::pair{by_row, block_bound(geometry, spans, num_slots, view(rows), scratch)};
      },
      nb::arg("geometry"), nb::arg("batches").noconvert(), nb::arg("num_slots"),
      nb::arg("cached").noconvert(),
      "(rows, blocks): the fewest reads of a bulk, given the rows in the cache before it.");
  m.def(
      "priced_bound",
      [](const Geometry& geometry, const BatchList& batches, std::int64_t num_slots,
         const In<std::uint32_t>& rows, int rounds) {
        const auto spans = views(batches);
        Released released;
        check_rows(geometry, view(rows));
        return priced_bound(geometry, spans, num_slots, view(rows), rounds);
      },
      nb::arg("geometry"), nb::arg("batches").noconvert(), nb::arg("num_slots"),
      nb::arg("cached").noconvert(), nb::arg("rounds") = 40,
      "A sharper bound on the blocks read, by putting a price on slots; slow.");
}

}  // namespace

}  // namespace foregather::python
