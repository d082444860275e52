#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "python/arrays.hpp"
#include "sampling/layerwise/layerwise.hpp"

namespace foregather::python {
namespace {

// Sampled minibatches until Python has made the arena they are copied to.
template <typename Id>
struct LayerwiseBulk {
  std::vector<LayerwiseSample<Id>> samples;
};

// Arrivals with the weights they refer to.
struct HeldArrivals {
  explicit HeldArrivals(In<double> given) : weights(std::move(given)), arrivals(view(weights)) {}
  In<double> weights;
  Arrivals arrivals;
};

template <typename T>
void append(std::span<T> arena, std::size_t& at, const std::vector<T>& piece) {
  if (piece.size() > arena.size() - at) throw InputError("the arena is too small for the bulk");
  std::copy(piece.begin(), piece.end(), arena.begin() + static_cast<std::ptrdiff_t>(at));
  at += piece.size();
}

template <typename Id>
void fill(const LayerwiseBulk<Id>& bulk, const Out<Id>& node, const Out<std::uint32_t>& row,
          const Out<std::uint32_t>& col, const Out<std::int64_t>& edge, const Out<float>& weight) {
  Released released;
  std::size_t nodes = 0, rows = 0, cols = 0, edges = 0, weights = 0;
  for (const auto& sample : bulk.samples) {
    append(view(node), nodes, sample.node);
    append(view(row), rows, sample.row);
    append(view(col), cols, sample.col);
    append(view(edge), edges, sample.edge);
    append(view(weight), weights, sample.weight);
  }
}

template <typename Id>
void counts(const LayerwiseBulk<Id>& bulk, const Out<std::int64_t>& num_nodes,
            const Out<std::int64_t>& num_edges) {
  std::size_t nodes = 0, edges = 0;
  for (const auto& sample : bulk.samples) {
    append(view(num_nodes), nodes, sample.num_nodes);
    append(view(num_edges), edges, sample.num_edges);
  }
}

Debias debias_of(const std::string& name) {
  if (name == "none") return Debias::kNone;
  if (name == "exact") return Debias::kExact;
  if (name == "reference") return Debias::kReference;
  throw InputError("debias is " + name + ", expected none, exact or reference");
}

template <typename Id>
void bind_ids(nb::module_& m, const char* name, const char* pool) {
  nb::class_<LayerwiseBulk<Id>>(m, name, "Minibatches of one sample_layerwise call.")
      .def("counts", &counts<Id>, nb::arg("num_nodes").noconvert(),
           nb::arg("num_edges").noconvert(), "Fills nodes and edges of each batch and layer.")
      .def("fill", &fill<Id>, nb::arg("node").noconvert(), nb::arg("row").noconvert(),
           nb::arg("col").noconvert(), nb::arg("edge").noconvert(), nb::arg("weight").noconvert(),
           "Copies all minibatches, one after the other, into the arrays.");
  nb::class_<LayerwiseTables<Id>>(m, pool, "Tables of the threads that sample one graph.")
      .def_prop_ro("bytes", &LayerwiseTables<Id>::bytes, "Bytes kept for all threads.");
  m.def(
      "layerwise_tables", [](const In<Id>&) { return new LayerwiseTables<Id>(); },
      nb::rv_policy::take_ownership, nb::arg("indices").noconvert(),
      "Empty tables for a graph with these indices.");
  m.def(
      "sample_layerwise",
      [](LayerwiseTables<Id>& tables, const In<std::int64_t>& indptr, const In<Id>& indices,
         const std::optional<In<float>>& edge_weight, const In<std::int64_t>& layer_sizes,
         const std::string& debias, const HeldArrivals* columns, double total, const In<Id>& seeds,
         const In<std::int64_t>& seed_ptr, std::uint64_t seed, std::uint64_t epoch,
         std::uint64_t first_batch, int threads) {
        Released released;
        const LayerwiseGraph<Id> graph{view(indptr), view(indices),
                                       edge_weight ? view(*edge_weight) : std::span<const float>{}};
        const LayerwiseRule rule{view(layer_sizes), debias_of(debias),
                                 columns ? view(columns->weights) : std::span<const double>{},
                                 total, columns ? &columns->arrivals : nullptr};
        return LayerwiseBulk<Id>{sample_layerwise<Id>(
            graph, rule, {view(seeds), view(seed_ptr), seed, epoch, first_batch}, tables, threads)};
      },
      nb::arg("tables"), nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
      nb::arg("edge_weight").noconvert().none(), nb::arg("layer_sizes").noconvert(),
      nb::arg("debias"), nb::arg("columns").none(), nb::arg("total"), nb::arg("seeds").noconvert(),
      nb::arg("seed_ptr").noconvert(), nb::arg("seed"), nb::arg("epoch"), nb::arg("first_batch"),
      nb::arg("threads") = 0,
      "Samples minibatches layer-wise: LADIES, or FastGCN where columns are given.");
}

}  // namespace

void bind_layerwise(nb::module_& m) {
  nb::class_<HeldArrivals>(m, "Arrivals", "Weighted nodes, ready to be drawn from.")
      .def(nb::init<In<double>>(), nb::arg("weights").noconvert());
  bind_ids<std::uint32_t>(m, "LayerwiseBulk32", "LayerwiseTables32");
  bind_ids<std::int64_t>(m, "LayerwiseBulk64", "LayerwiseTables64");
}

}  // namespace foregather::python
