#include <nanobind/stl/optional.h>

#include <optional>

#include "io/gathering/gather.hpp"
#include "python/arrays.hpp"
#include "sampling/keys.hpp"
#include "sampling/shuffle.hpp"

namespace foregather::python {
namespace {

using Matrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutMatrix = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <typename T>
bool holds(const nb::dlpack::dtype& dtype) {
  return dtype == nb::dtype<T>();
}

bool is_half(const nb::dlpack::dtype& dtype) {
  return dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float) &&
         dtype.bits == 16 && dtype.lanes == 1;
}

template <typename Id>
void gather(const Matrix& data, const In<Id>& ids, const OutMatrix& out,
            const std::optional<In<float>>& scale, int threads) {
  const Rows rows{static_cast<const std::byte*>(data.data()),
                  static_cast<std::int64_t>(data.shape(0)), data.shape(1) * data.itemsize()};
  if (out.shape(0) != ids.shape(0) || out.shape(1) != data.shape(1)) {
    throw InputError("out does not have one row for each id and one column for each of the data");
  }
  const std::size_t values = out.shape(0) * out.shape(1);
  if (scale || (is_half(data.dtype()) && holds<float>(out.dtype()))) {
    const std::span<float> floats{static_cast<float*>(out.data()), values};
    if (!holds<float>(out.dtype()) || (scale && !holds<std::int8_t>(data.dtype()))) {
      throw InputError("a scale goes with int8 data and a float32 out");
    }
    Released released;
    if (scale) return gather_scaled<Id>(rows, view(*scale), view(ids), floats, threads);
    return gather_half<Id>(rows, view(ids), floats, threads);
  }
  if (!(data.dtype() == out.dtype())) throw InputError("out does not have the dtype of the data");
  Released released;
  const std::span<std::byte> bytes{static_cast<std::byte*>(out.data()), values * data.itemsize()};
  gather_rows<Id>(rows, view(ids), bytes, threads);
}

// The signature is written out because a view of any dtype has no type argument in the stub.
#define FOREGATHER_GATHER_SIGNATURE(ID)                                                          \
  "def gather_rows(data: numpy.typing.NDArray[typing.Any], ids: numpy.typing.NDArray[numpy." ID  \
  "], out: numpy.typing.NDArray[typing.Any], scale: numpy.typing.NDArray[numpy.float32] | None " \
  "= None, threads: int = 0) -> None"

template <typename Id>
void bind_ids(nb::module_& m, const char* signature) {
  m.def("gather_rows", &gather<Id>, nb::sig(signature), nb::arg("data").noconvert(),
        nb::arg("ids").noconvert(), nb::arg("out").noconvert(),
        nb::arg("scale").noconvert().none() = nb::none(), nb::arg("threads") = 0,
        "Copies rows ids[k] of data into out; int8 with a scale and float16 may become float32.");
}

}  // namespace

void bind_gather(nb::module_& m) {
  bind_ids<std::uint32_t>(m, FOREGATHER_GATHER_SIGNATURE("uint32"));
  bind_ids<std::int64_t>(m, FOREGATHER_GATHER_SIGNATURE("int64"));
  m.def(
      "shuffled",
      [](std::int64_t count, std::uint64_t seed, std::uint64_t epoch, std::int64_t start,
         const Out<std::int64_t>& out) {
        Released released;
        const auto size = static_cast<std::int64_t>(out.shape(0));
        if (start < 0 || count < 0 || start > count || size > count - start) {
          throw InputError("start and out do not lie inside the order of count positions");
        }
        epoch_order(static_cast<std::uint64_t>(count), epoch_key(seed, Purpose::kShuffle, epoch),
                    static_cast<std::uint64_t>(start), view(out));
      },
      nb::arg("count"), nb::arg("seed"), nb::arg("epoch"), nb::arg("start"),
      nb::arg("out").noconvert(),
      "Fills out with entries start, start + 1, ... of the epoch's order of 0 to count - 1.");
}

}  // namespace foregather::python
