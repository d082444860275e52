// The Python module: turns NumPy arrays into spans, releases the GIL, and maps errors.
//
// Bindings check shapes and dtypes; contracts on values are checked in the core, whose InputError
// StorageError and others become the exceptions of foregather.errors.
#include "parallel/pool.hpp"
#include "python/arrays.hpp"

namespace nb = nanobind;
using namespace foregather;

namespace {

void raise(const char* name, const char* what) {
  nb::object type = nb::module_::import_("foregather.errors").attr(name);
  PyErr_SetString(type.ptr(), what);
}

// An OSError with its errno, which is not part of what it says.
void raise_storage(const StorageError& thrown) {
  nb::object type = nb::module_::import_("foregather.errors").attr("StorageError");
  nb::object error = type(thrown.what());
  if (thrown.code > 0) error.attr("errno") = thrown.code;
  PyErr_SetObject(type.ptr(), error.ptr());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const InputError& error) {
    raise("InputError", error.what());
  } catch (const StorageError& error) {
    raise_storage(error);
  } catch (const FormatError& error) {
    raise("FormatError", error.what());
  } catch (const BudgetError& error) {
    raise("BudgetError", error.what());
  }
}

void bind_all(nb::module_& m, nb::module_& testing);

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "foregather's C++ core; arrays in, arrays out, no torch.";
#ifdef NDEBUG
  // What outlives the interpreter is seldom a fault of these bindings: a traceback or another
  // module still holds it, and pages of names after Ctrl-C help nobody. Tests ask for them again.
  nb::set_leak_warnings(false);
#endif
  nb::register_exception_translator(translate);
  m.def("default_threads", &default_threads, "Hardware threads this process may use.");
  m.def(
      "expect_leaks",
      [] {
        nb::set_leak_warnings(false);
        python::rest_instead_of_terminate();
      },
      "Says that threads will still run at the end of the process and keep what they hold.");
  nb::module_ testing = m.def_submodule("testing", "What only tests and benchmarks use.");
  testing.def(
      "list_leaks", [] { nb::set_leak_warnings(true); },
      "Lists on the error stream, at the end of the process, what was never given back.");
  bind_all(m, testing);
}

namespace {

void bind_all(nb::module_& m, nb::module_& testing) {
  python::bind_aggregate(m, testing);
  python::bind_batch_arrays(m);
  python::bind_block_sums(m, testing);
  python::bind_check(m);
  python::bind_csc(m);
  python::bind_dense(m);
  python::bind_disk_gather(m, testing);
  python::bind_disk_sample(m);
  python::bind_file_map(m);
  python::bind_gather(m);
  python::bind_hash(m);
  python::bind_layerwise(m);
  python::bind_sampling_verbs(m, testing);
  python::bind_memory_probe(testing);
  python::bind_fastgcn_draw(m);
  python::bind_call_planner(m);
  python::bind_names(m);
  python::bind_negatives(m);
  python::bind_order(m);
  python::bind_plan(m);
  python::bind_planner(m);
  python::bind_policies(m);
  python::bind_range_read(m, testing);
  python::bind_reader(m);
  python::bind_repack(m);
  python::bind_row_index(m);
  python::bind_row_sample(m);
  python::bind_sample(m, testing);
  python::bind_spool(m);
  python::bind_pair_dots(m);
  python::bind_sum_rows(m);
  python::bind_sweep(m, testing);
  python::bind_synth(m);
  python::bind_table(m);
  python::bind_text(m);
  python::bind_typed_layerwise(m);
  python::bind_hgt_sample(m);
  python::bind_typed_sample(m);
  python::bind_varint(m);
  python::bind_walk(m);
}

}  // namespace
