#include <utility>

#include "io/repacking/repack.hpp"
#include "python/plan/plan_views.hpp"

namespace foregather::python {

void bind_repack(nb::module_& m) {
  nb::class_<RepackPlan> type(m, "RepackPlan",
                              "A sweep into a scratch file and a plan over it; see repack.hpp.");
  type.def_ro("source", &RepackPlan::source)
      .def_ro("scratch", &RepackPlan::scratch, nb::rv_policy::reference_internal);
  vector_view(type, "request_offset", &RepackPlan::request_offset);
  vector_view(type, "request_length", &RepackPlan::request_length);
  vector_view(type, "move_ptr", &RepackPlan::move_ptr);
  vector_view(type, "move_row", &RepackPlan::move_row);
  vector_view(type, "move_index", &RepackPlan::move_index);
  vector_view(type, "run_ptr", &RepackPlan::run_ptr);
  m.def(
      "make_repack",
      [](const Plan& rows, std::int64_t merge_gap, std::int64_t max_request) {
        Released released;
        return make_repack(rows, merge_gap, max_request);
      },
      nb::arg("rows"), nb::arg("merge_gap"), nb::arg("max_request"),
      "Turns a plan by rows into a sweep and a plan over the scratch file.");
}

}  // namespace foregather::python
