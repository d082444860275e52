// Dense products for torch: addresses and strides of tensors in, as in bind_aggregate.cpp.
// What calls this, foregather.nn.dense, has checked shapes and dtypes.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "nn/dense.hpp"
#include "parallel/team.hpp"
#include "python/arrays.hpp"

namespace foregather::python {

void bind_dense(nb::module_& m) {
  using Address = std::uintptr_t;
  using Two = std::tuple<std::int64_t, std::int64_t>;
  using Operands = std::tuple<Address, Two, Address, Two, std::int64_t>;
  const auto floats = [](Address address) { return reinterpret_cast<const float*>(address); };
  m.def(
      "set_team", [](Address entry) { set_team(reinterpret_cast<TeamEntry>(entry)); },
      nb::arg("entry"), "The entry of torch's OpenMP runtime, or 0; see team.hpp.");
  m.def("dense_pays", &nn::dense_pays,
        "Whether `dense` is faster here than torch's own products; see dense.hpp.");
  m.def(
      "dense",
      [floats](const std::vector<Operands>& products, Two shape, Address out, std::int64_t out_row,
               bool add, Address bias, int threads) {
        Released released;
        OnTeam team;
        std::vector<nn::DenseProduct> given;
        for (const auto& [a, a_strides, b, b_strides, inner] : products) {
          given.push_back({{floats(a), std::get<0>(a_strides), std::get<1>(a_strides)},
                           {floats(b), std::get<0>(b_strides), std::get<1>(b_strides)},
                           inner});
        }
        nn::dense(given, std::get<0>(shape), std::get<1>(shape),
                  {reinterpret_cast<float*>(out), out_row, add, floats(bias)}, threads);
      },
      nb::arg("products"), nb::arg("shape"), nb::arg("out"), nb::arg("out_row"),
      nb::arg("add") = false, nb::arg("bias") = 0, nb::arg("threads") = 0,
      "out[i, j] = what it held, bias[j] or 0, and a[i, k] * b[k, j] added in the order of k, for "
      "each product (a, its strides, b, its strides, terms).");
}

}  // namespace foregather::python
