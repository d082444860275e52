#include "parallel/pool.hpp"
#include "python/arrays.hpp"
#include "sampling/batch_arrays.hpp"

namespace foregather::python {
namespace {

using Pairs = nb::ndarray<std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

int resolved(int threads) { return threads > 0 ? threads : default_threads(); }

using Labels = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Calls widen_labels with the first of these types that the labels have; false if it is none.
template <typename Id, typename... Label>
bool widen_as(const Labels& labels, const In<Id>& ids, const Out<std::int64_t>& out, int threads) {
  return (... ||
          (labels.dtype() == nb::dtype<Label>() &&
           (widen_labels<Label, Id>({static_cast<const Label*>(labels.data()), labels.shape(0)},
                                    view(ids), view(out), threads),
            true)));
}

// The signature is written out because a view of any dtype has no type argument in the stub.
#define FOREGATHER_LABELS_SIGNATURE(ID)                                                            \
  "def widen_labels(labels: numpy.typing.NDArray[typing.Any], ids: numpy.typing.NDArray[numpy." ID \
  "], out: numpy.typing.NDArray[numpy.int64], threads: int = 0) -> None"

template <typename Id>
void bind_labels(nb::module_& m, const char* signature) {
  m.def(
      "widen_labels",
      [](const Labels& labels, const In<Id>& ids, const Out<std::int64_t>& out, int threads) {
        Released released;
        if (!widen_as<Id, std::int64_t, std::int32_t, std::int16_t, std::int8_t, std::uint32_t,
                      std::uint16_t, std::uint8_t>(labels, ids, out, resolved(threads))) {
          throw InputError("labels are not whole numbers of at most 63 bits");
        }
      },
      nb::sig(signature), nb::arg("labels").noconvert(), nb::arg("ids").noconvert(),
      nb::arg("out").noconvert(), nb::arg("threads") = 0,
      "Fills out with the labels of these ids, as int64.");
}

template <typename Id>
void bind_ids(nb::module_& m) {
  m.def(
      "widen_ids",
      [](const In<Id>& node, const In<std::uint32_t>& row, const In<std::uint32_t>& col,
         const In<std::int64_t>& edge, const Out<std::int64_t>& n_id, const Pairs& edge_index,
         const Out<std::int64_t>& e_id, int threads) {
        if (edge_index.shape(0) != 2) throw InputError("edge_index does not have two rows");
        Released released;
        const BatchIds out{view(n_id), {edge_index.data(), edge_index.size()}, view(e_id)};
        widen_ids<Id>(view(node), view(row), view(col), view(edge), out, resolved(threads));
      },
      nb::arg("node").noconvert(), nb::arg("row").noconvert(), nb::arg("col").noconvert(),
      nb::arg("edge").noconvert(), nb::arg("n_id").noconvert(), nb::arg("edge_index").noconvert(),
      nb::arg("e_id").noconvert(), nb::arg("threads") = 0,
      "Copies the ids of a sample to the int64 arrays of its batch.");
}

}  // namespace

void bind_batch_arrays(nb::module_& m) {
  bind_ids<std::uint32_t>(m);
  bind_ids<std::int64_t>(m);
  bind_labels<std::uint32_t>(m, FOREGATHER_LABELS_SIGNATURE("uint32"));
  bind_labels<std::int64_t>(m, FOREGATHER_LABELS_SIGNATURE("int64"));
}

}  // namespace foregather::python
