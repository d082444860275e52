#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "python/arrays.hpp"
#include "sampling/owners/row_sample.hpp"

namespace foregather::python {
namespace {

using Message = Made<std::uint8_t>;

template <typename Id>
BlockRows<Id> block_of(std::int64_t first_row, const In<std::int64_t>& indptr,
                       const In<Id>& indices, const std::optional<In<float>>& edge_weight) {
  return {first_row, view(indptr), view(indices),
          edge_weight ? view(*edge_weight) : std::span<const float>{}};
}

// Keeps the arrays that the inquiry only views.
template <typename Id>
class Inquiry {
 public:
  Inquiry(In<Id> rows, In<std::int64_t> batch_ptr, In<std::int64_t> row_starts,
          In<std::uint64_t> keys, std::int64_t fanout, bool replace, std::int64_t own)
      : rows_(std::move(rows)),
        batch_ptr_(std::move(batch_ptr)),
        row_starts_(std::move(row_starts)),
        keys_(std::move(keys)),
        inquiry_(view(rows_), view(batch_ptr_), view(row_starts_), view(keys_), {fanout, replace},
                 own) {}

  Message request(std::int64_t owner) const {
    std::vector<std::uint8_t> made;
    {
      Released released;
      made = inquiry_.request(owner);
    }
    return to_numpy(std::move(made));
  }

  void accept(const std::vector<Bytes>& replies, std::int64_t first_row,
              const In<std::int64_t>& indptr, const In<Id>& indices,
              const std::optional<In<float>>& edge_weight, const Out<std::int64_t>& ptr,
              int threads) {
    std::vector<std::span<const std::uint8_t>> views;
    for (const Bytes& reply : replies) views.emplace_back(reply.data(), reply.shape(0));
    Released released;
    inquiry_.accept(views, block_of(first_row, indptr, indices, edge_weight),
                    edge_weight.has_value(), view(ptr), threads);
  }

  void fill(std::int64_t first_row, const In<std::int64_t>& indptr, const In<Id>& indices,
            const std::optional<In<float>>& edge_weight, const In<std::int64_t>& ptr,
            const Out<Id>& columns, const Out<std::int64_t>& edge, const Out<float>& weight,
            int threads) {
    Released released;
    inquiry_.fill(block_of(first_row, indptr, indices, edge_weight), view(ptr), view(columns),
                  view(edge), view(weight), threads);
  }

 private:
  In<Id> rows_;
  In<std::int64_t> batch_ptr_, row_starts_;
  In<std::uint64_t> keys_;
  RowInquiry<Id> inquiry_;
};

template <typename Id>
void bind_inquiry(nb::module_& m, const char* name) {
  using Class = Inquiry<Id>;
  nb::class_<Class>(m, name, "Rows of one layer, asked of their owners.")
      .def("request", &Class::request, nb::arg("owner"), "The message to one owner.")
      .def("accept", &Class::accept, nb::arg("replies"), nb::arg("first_row"),
           nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
           nb::arg("edge_weight").noconvert().none(), nb::arg("ptr").noconvert(),
           nb::arg("threads") = 0, "Reads the replies; fills where each row's entries begin.")
      .def("fill", &Class::fill, nb::arg("first_row"), nb::arg("indptr").noconvert(),
           nb::arg("indices").noconvert(), nb::arg("edge_weight").noconvert().none(),
           nb::arg("ptr").noconvert(), nb::arg("columns").noconvert(), nb::arg("edge").noconvert(),
           nb::arg("weight").noconvert(), nb::arg("threads") = 0,
           "Fills the entries: sources, positions in A and weights.");
  m.def(
      "row_inquiry",
      [](In<Id> rows, In<std::int64_t> batch_ptr, In<std::int64_t> row_starts,
         In<std::uint64_t> keys, std::int64_t fanout, bool replace, std::int64_t own) {
        return new Class(std::move(rows), std::move(batch_ptr), std::move(row_starts),
                         std::move(keys), fanout, replace, own);
      },
      nb::rv_policy::take_ownership, nb::arg("rows").noconvert(), nb::arg("batch_ptr").noconvert(),
      nb::arg("row_starts").noconvert(), nb::arg("keys").noconvert(), nb::arg("fanout"),
      nb::arg("replace"), nb::arg("own"), "The questions of a layer, for ids as wide as rows.");
}

template <typename Id>
void bind_answers(nb::module_& m) {
  m.def(
      "answer_rows",
      [](const Bytes& request, std::int64_t first_row, const In<std::int64_t>& indptr,
         const In<Id>& indices, const std::optional<In<float>>& edge_weight, std::int64_t fanout,
         bool replace) {
        std::vector<std::uint8_t> made;
        {
          Released released;
          made = answer_rows<Id>(block_of(first_row, indptr, indices, edge_weight),
                                 {fanout, replace}, {request.data(), request.shape(0)});
        }
        return to_numpy(std::move(made));
      },
      nb::arg("request").noconvert(), nb::arg("first_row"), nb::arg("indptr").noconvert(),
      nb::arg("indices").noconvert(), nb::arg("edge_weight").noconvert().none(), nb::arg("fanout"),
      nb::arg("replace"), "The reply of the owner of a block of rows.");
  m.def(
      "read_request",
      [](const Bytes& request, std::int64_t first_row, const In<std::int64_t>& indptr,
         const In<Id>& indices) {
        RowRequest<Id> asked;
        {
          Released released;
          asked = read_request<Id>(block_of(first_row, indptr, indices, {}), true,
                                   {request.data(), request.shape(0)});
        }
        return std::make_tuple(to_numpy(std::move(asked.vertex)), to_numpy(std::move(asked.batch)),
                               to_numpy(std::move(asked.keys)));
      },
      nb::arg("request").noconvert(), nb::arg("first_row"), nb::arg("indptr").noconvert(),
      nb::arg("indices").noconvert(), "Rows, batches and keys that a request with keys asks for.");
}

}  // namespace

void bind_row_sample(nb::module_& m) {
  bind_inquiry<std::uint32_t>(m, "RowInquiry32");
  bind_answers<std::uint32_t>(m);
  bind_inquiry<std::int64_t>(m, "RowInquiry64");
  bind_answers<std::int64_t>(m);
}

}  // namespace foregather::python
