#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "parallel/pool.hpp"
#include "python/sampling/typed_bulk.hpp"
#include "sampling/layerwise/typed_layerwise.hpp"
#include "sampling/typed/check_relation.hpp"

namespace foregather::python {
namespace {

// One layer-wise sampler over one typed graph; keeps the relations' arrays, the threads' states and
// the pool.
template <typename Id>
class TypedLayerwise {
 public:
  TypedLayerwise(std::vector<std::int64_t> num_nodes, std::int64_t layers, int debias, bool global)
      : global_(global) {
    graph_.num_nodes = std::move(num_nodes);
    graph_.layers = static_cast<std::size_t>(layers);
    graph_.debias = static_cast<Debias>(debias);
  }

  void add(std::size_t source, std::size_t target, In<std::int64_t> indptr, In<Id> indices,
           std::vector<std::int64_t> sizes, std::optional<In<float>> weights) {
    if (sizes.size() != graph_.layers) throw InputError("a relation needs a size a layer");
    if (weights && weights->shape(0) != indices.shape(0)) {
      throw InputError("weights does not have an entry for each edge");
    }
    std::lock_guard<std::mutex> hold(workers_.lock());
    Held& held = held_.emplace_back(
        Held{std::move(indptr), std::move(indices), std::move(weights), {}, nullptr});
    const auto values = held.weights ? view(*held.weights) : std::span<const float>();
    LayerwiseRelation<Id> made{{view(held.indptr), view(held.indices), values},
                               source,
                               target,
                               std::move(sizes),
                               {},
                               0,
                               nullptr};
    Released released;
    check_relation(TypedRelation<Id>{{view(held.indptr), view(held.indices)}, source, target, {}},
                   graph_.num_nodes, 0);
    const bool used =
        std::any_of(made.sizes.begin(), made.sizes.end(), [](std::int64_t s) { return s != 0; });
    if (global_ && used && held.indices.shape(0) > 0) weigh_columns(held, made);
    graph_.relations.push_back(std::move(made));
  }

  Minibatches sample(const std::vector<Group>& groups, std::size_t count, std::uint64_t seed,
                     std::uint64_t epoch, std::uint64_t first_batch, int threads) {
    const std::vector<TypedSeeds> seeds = seeds_of(groups);
    return workers_.make(count, [&](std::span<TypedArrays<Id>* const> places) {
      const int some = threads > 0 ? threads : default_threads();
      sample_typed_layerwise<Id>(graph_, seeds, seed, epoch, first_batch, some, workers_.some(some),
                                 places);
    });
  }

  std::size_t table_bytes() const { return workers_.bytes(); }

 private:
  struct Held {
    In<std::int64_t> indptr;
    In<Id> indices;
    std::optional<In<float>> weights;
    std::vector<double> columns;  // p of FastGCN
    std::unique_ptr<Arrivals> arrivals;
  };

  // The sums of squares over all rows of a relation, as _squares in Python has them.
  void weigh_columns(Held& held, LayerwiseRelation<Id>& made) {
    std::vector<std::int64_t> sums(static_cast<std::size_t>(graph_.num_nodes[made.source]));
    const double unit =
        square_columns<Id>(made.graph.indptr, made.graph.indices, made.graph.edge_weight, sums, 0);
    std::int64_t whole = 0;
    for (const std::int64_t sum : sums) {
      whole += sum;
      held.columns.push_back(static_cast<double>(sum) * unit);
    }
    held.arrivals = std::make_unique<Arrivals>(held.columns);
    made.column_weights = held.columns;
    made.total = static_cast<double>(whole) * unit;
    made.arrivals = held.arrivals.get();
  }

  LayerwiseTypes<Id> graph_;
  bool global_;
  std::deque<Held> held_;  // of each relation; addresses stay
  TypedWorkers<Id, TypedLayerwiseWorker<Id>> workers_;
};

template <typename Id>
void bind(nb::module_& m, const char* name) {
  using K = TypedLayerwise<Id>;
  nb::class_<K>(m, name, "Bulk layer-wise sampling over one graph with types.")
      .def(nb::init<std::vector<std::int64_t>, std::int64_t, int, bool>(), nb::arg("num_nodes"),
           nb::arg("layers"), nb::arg("debias"), nb::arg("all_rows"))
      .def("add", &K::add, nb::arg("source"), nb::arg("target"), nb::arg("indptr").noconvert(),
           nb::arg("indices").noconvert(), nb::arg("sizes"),
           nb::arg("weights").noconvert().none() = nb::none(),
           "Adds the next relation; types are numbers.")
      .def("sample", &K::sample, nb::arg("groups").noconvert(), nb::arg("count"), nb::arg("seed"),
           nb::arg("epoch"), nb::arg("first_batch"), nb::arg("threads") = 0,
           "Minibatches as those of TypedKernel32; debias is 0 for none, 1 exact, 2 reference, and "
           "all_rows takes the weights of columns over all rows, as FastGCN.")
      .def_prop_ro("table_bytes", &K::table_bytes, "Bytes kept for all threads.");
}

}  // namespace

void bind_typed_layerwise(nb::module_& m) {
  bind<std::uint32_t>(m, "TypedLayerwise32");
  bind<std::int64_t>(m, "TypedLayerwise64");
}

}  // namespace foregather::python
