#include <nanobind/stl/string.h>

#include "plan/baselines/policies.hpp"
#include "python/plan/plan_views.hpp"

namespace foregather::python {

void bind_policies(nb::module_& m) {
  nb::class_<OnlinePlanner>(m, "OnlinePlanner", "A cache that does not know the future, as plans.")
      .def(
          "__init__",
          [](OnlinePlanner* self, const Geometry& geometry, std::int64_t num_slots,
             const std::string& policy, const In<std::uint32_t>& hot, std::int64_t merge_gap,
             std::int64_t max_request, bool single, bool bounds) {
            new (self) OnlinePlanner(geometry, num_slots, parse_policy(policy),
                                     {merge_gap, max_request, false, single, bounds}, view(hot));
          },
          nb::arg("geometry"), nb::arg("num_slots"), nb::arg("policy"), nb::arg("hot").noconvert(),
          nb::arg("merge_gap") = 0, nb::arg("max_request") = 1 << 20, nb::arg("single") = false,
          nb::arg("bounds") = true)
      .def(
          "plan",
          [](OnlinePlanner& self, const BatchList& batches) {
            const auto now = views(batches);
            Released released;
            return self.plan(now);
          },
          nb::arg("batches").noconvert());
  nb::class_<PagePlanner>(m, "PagePlanner", "Belady's rule for whole blocks.")
      .def(
          "__init__",
          [](PagePlanner* self, const Geometry& geometry, std::int64_t num_slots,
             std::int64_t merge_gap, std::int64_t max_request, bool bounds) {
            new (self)
                PagePlanner(geometry, num_slots, {merge_gap, max_request, false, false, bounds});
          },
          nb::arg("geometry"), nb::arg("num_slots"), nb::arg("merge_gap") = 0,
          nb::arg("max_request") = 1 << 20, nb::arg("bounds") = true)
      .def(
          "plan",
          [](PagePlanner& self, const BatchList& batches, const BatchList& ahead) {
            const auto now = views(batches), later = views(ahead);
            Released released;
            return self.plan(now, later);
          },
          nb::arg("batches").noconvert(), nb::arg("ahead").noconvert() = BatchList{});
}

}  // namespace foregather::python
