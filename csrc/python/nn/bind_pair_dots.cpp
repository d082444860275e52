#include "nn/pair_dots.hpp"
#include "python/arrays.hpp"

namespace foregather::python {
namespace {

template <typename T>
using Table = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using OutTable = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <typename T>
void bind(nb::module_& m) {
  m.def(
      "pair_dots",
      [](const Table<T>& a, const Table<T>& b, const OutTable<T>& out, int threads) {
        if (a.shape(1) != b.shape(0) || out.shape(0) != a.shape(0) || out.shape(1) != b.shape(1)) {
          throw InputError("the shapes of a, b and out do not fit");
        }
        Released released;
        nn::pair_dots<T>(a.data(), b.data(), static_cast<std::int64_t>(a.shape(0)),
                         static_cast<std::int64_t>(a.shape(1)),
                         static_cast<std::int64_t>(b.shape(1)), out.data(), threads);
      },
      nb::arg("a").noconvert(), nb::arg("b").noconvert(), nb::arg("out").noconvert(),
      nb::arg("threads") = 0, "Products of the rows of a and the columns of b; see pair_dots.hpp.");
}

}  // namespace

void bind_pair_dots(nb::module_& m) {
  bind<float>(m);
  bind<double>(m);
}

}  // namespace foregather::python
