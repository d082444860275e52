#include <nanobind/stl/optional.h>

#include <optional>

#include "nn/sum_rows.hpp"
#include "python/arrays.hpp"

namespace foregather::python {
namespace {

using Matrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutMatrix = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <typename T, typename Id>
void sum_as(const Matrix& data, std::span<const Id> node, const nn::PlaceLists& lists,
            const float* scale, const OutMatrix& out, int threads) {
  if (!(out.dtype() == nb::dtype<nn::RowSum<T>>())) {
    throw InputError("out does not have the dtype of sums of such rows");
  }
  const nn::FeatureRows<T> rows{static_cast<const T*>(data.data()),
                                static_cast<std::int64_t>(data.shape(0)),
                                static_cast<std::int64_t>(data.shape(1)), scale};
  Released released;
  nn::sum_rows<T, Id>(rows, node, lists, static_cast<nn::RowSum<T>*>(out.data()), threads);
}

template <typename Id>
void sum(const Matrix& data, const std::optional<In<Id>>& node, const In<std::uint32_t>& place,
         const In<std::int64_t>& starts, const std::optional<In<float>>& weight,
         const std::optional<In<float>>& scale, const OutMatrix& out, int threads) {
  const auto dtype = data.dtype();
  if (out.shape(0) + 1 != starts.shape(0) || out.shape(1) != data.shape(1)) {
    throw InputError("out does not have one row for each target and one column for each of data");
  }
  if (weight && weight->shape(0) != place.shape(0)) {
    throw InputError("weight does not have one number for each place");
  }
  if (scale && scale->shape(0) != data.shape(1)) {
    throw InputError("scale does not have one number for each column");
  }
  const nn::PlaceLists lists{view(starts), view(place), weight ? weight->data() : nullptr};
  const std::span<const Id> nodes = node ? view(*node) : std::span<const Id>{};
  const float* const factors = scale ? scale->data() : nullptr;
  const bool is_float = dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float);
  if (dtype == nb::dtype<std::int8_t>() && scale) {
    return sum_as<std::int8_t, Id>(data, nodes, lists, factors, out, threads);
  }
  if (scale) throw InputError("a scale goes with int8 data");
  if (dtype == nb::dtype<float>()) {
    return sum_as<float, Id>(data, nodes, lists, nullptr, out, threads);
  }
  if (dtype == nb::dtype<double>()) {
    return sum_as<double, Id>(data, nodes, lists, nullptr, out, threads);
  }
  if (is_float && dtype.bits == 16 && dtype.lanes == 1) {
    return sum_as<nn::Float16, Id>(data, nodes, lists, nullptr, out, threads);
  }
  throw InputError("data is none of float16, float32, float64 and int8 with a scale");
}

// The signature is written out because a view of any dtype has no type argument in the stub.
#define FOREGATHER_SUM_SIGNATURE(ID)                                                           \
  "def sum_rows(data: numpy.typing.NDArray[typing.Any], node: numpy.typing.NDArray[numpy." ID  \
  "] | None, place: numpy.typing.NDArray[numpy.uint32], starts: "                              \
  "numpy.typing.NDArray[numpy.int64], weight: numpy.typing.NDArray[numpy.float32] | None, "    \
  "scale: numpy.typing.NDArray[numpy.float32] | None, out: numpy.typing.NDArray[typing.Any], " \
  "threads: int = 0) -> None"

template <typename Id>
void bind_ids(nb::module_& m, const char* signature) {
  m.def("sum_rows", &sum<Id>, nb::sig(signature), nb::arg("data").noconvert(),
        nb::arg("node").noconvert().none(), nb::arg("place").noconvert(),
        nb::arg("starts").noconvert(), nb::arg("weight").noconvert().none(),
        nb::arg("scale").noconvert().none(), nb::arg("out").noconvert(), nb::arg("threads") = 0,
        "Sums of rows by target, rows given by place, or by the node at a place.");
}

}  // namespace

void bind_sum_rows(nb::module_& m) {
  bind_ids<std::uint32_t>(m, FOREGATHER_SUM_SIGNATURE("uint32"));
  bind_ids<std::int64_t>(m, FOREGATHER_SUM_SIGNATURE("int64"));
}

}  // namespace foregather::python
