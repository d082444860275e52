// The Python module: turns NumPy arrays into spans, releases the GIL, and maps errors.
//
// Bindings check shapes and dtypes; contracts on values are checked in the core, whose InputError
// and StorageError become the exceptions of foregather.errors.
#include "arrays.hpp"
#include "foregather/pool.hpp"

namespace nb = nanobind;
using namespace foregather;

namespace {

void raise(const char* name, const char* what) {
  nb::object type = nb::module_::import_("foregather.errors").attr(name);
  PyErr_SetString(type.ptr(), what);
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const InputError& error) {
    raise("InputError", error.what());
  } catch (const StorageError& error) {
    raise("StorageError", error.what());
  }
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "foregather's C++ core; arrays in, arrays out, no torch.";
  nb::register_exception_translator(translate);
  m.def("default_threads", &default_threads, "Hardware threads this process may use.");
  python::bind_check(m);
  python::bind_csc(m);
  python::bind_gather(m);
  python::bind_hash(m);
  python::bind_layerwise(m);
  python::bind_matrix(m);
  python::bind_memory_probe(m);
  python::bind_reader(m);
  python::bind_row_sample(m);
  python::bind_sample(m);
  python::bind_spool(m);
  python::bind_synth(m);
  python::bind_text(m);
  python::bind_walk(m);
}
