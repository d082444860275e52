// Arrays: the NumPy views the bindings accept, and the checks they share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "python/gil.hpp"

namespace foregather::python {

namespace nb = nanobind;

template <typename T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// What Python is told, by name.
using Facts = nb::typed<nb::dict, nb::str, nb::any>;

template <typename T>
std::span<const T> view(const In<T>& array) {
  return {array.data(), array.shape(0)};
}
template <typename T>
std::span<T> view(const Out<T>& array) {
  return {array.data(), array.shape(0)};
}
// An array that Python owns, of numbers that were made here.
template <typename T>
using Made = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
template <typename T>
Made<T> to_numpy(std::vector<T> numbers) {
  auto* kept = new std::vector<T>(std::move(numbers));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Made<T>(kept->data(), {kept->size()}, owner);
}
inline std::span<const std::byte> bytes(const Bytes& array) {
  return {reinterpret_cast<const std::byte*>(array.data()), array.shape(0)};
}

// For kernels that keep a graph: indptr must end where indices do.
template <typename Id>
void check_topology(const In<std::int64_t>& indptr, const In<Id>& indices) {
  const auto ends = view(indptr);
  if (ends.empty() || ends.front() != 0 ||
      ends.back() != static_cast<std::int64_t>(indices.shape(0))) {
    throw InputError("indptr does not describe indices");
  }
}

// Lets Ctrl-C end a long call; elsewhere than in the main thread this does nothing.
inline void raise_signals() {
  Held held;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// One function a concept; module.cpp calls them all. What only tests and benchmarks use goes to the
// submodule `testing`.
void bind_aggregate(nb::module_& m, nb::module_& testing);
void bind_batch_arrays(nb::module_& m);
void bind_block_sums(nb::module_& m, nb::module_& testing);
void bind_check(nb::module_& m);
void bind_csc(nb::module_& m);
void bind_disk_gather(nb::module_& m, nb::module_& testing);
void bind_disk_sample(nb::module_& m);
void bind_file_map(nb::module_& m);
void bind_gather(nb::module_& m);
void bind_hash(nb::module_& m);
void bind_layerwise(nb::module_& m);
void bind_sampling_verbs(nb::module_& m, nb::module_& testing);
void bind_memory_probe(nb::module_& testing);
void bind_fastgcn_draw(nb::module_& m);
void bind_call_planner(nb::module_& m);
void bind_names(nb::module_& m);
void bind_negatives(nb::module_& m);
void bind_order(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_planner(nb::module_& m);
void bind_policies(nb::module_& m);
void bind_range_read(nb::module_& m, nb::module_& testing);
void bind_reader(nb::module_& m);
void bind_repack(nb::module_& m);
void bind_row_index(nb::module_& m);
void bind_row_sample(nb::module_& m);
void bind_sample(nb::module_& m, nb::module_& testing);
void bind_spool(nb::module_& m);
void bind_pair_dots(nb::module_& m);
void bind_dense(nb::module_& m);
void bind_sum_rows(nb::module_& m);
void bind_sweep(nb::module_& m, nb::module_& testing);
void bind_synth(nb::module_& m);
void bind_table(nb::module_& m);
void bind_text(nb::module_& m);
void bind_typed_layerwise(nb::module_& m);
void bind_hgt_sample(nb::module_& m);
void bind_typed_sample(nb::module_& m);
void bind_varint(nb::module_& m);
void bind_walk(nb::module_& m);

}  // namespace foregather::python
