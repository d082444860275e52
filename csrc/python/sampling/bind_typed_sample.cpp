#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "parallel/pool.hpp"
#include "python/arrays.hpp"
#include "python/sampling/typed_bulk.hpp"
#include "sampling/typed/check_relation.hpp"
#include "sampling/typed/typed_sample.hpp"

namespace foregather::python {
namespace {

// One sampler over one typed graph; keeps the relations' arrays, the threads' states and the pool.
template <typename Id>
class TypedKernel {
 public:
  TypedKernel(std::vector<std::int64_t> num_nodes, std::int64_t layers, bool replace, bool trees,
              bool last, bool induced)
      : rule_{static_cast<std::size_t>(layers), replace, trees, last, induced} {
    graph_.num_nodes = std::move(num_nodes);
  }

  void use_labor(bool same, int weight) {
    rule_.labor = true;
    rule_.same = same;
    rule_.weight = static_cast<LaborWeight>(weight);
  }

  void add(std::size_t source, std::size_t target, In<std::int64_t> indptr, In<Id> indices,
           std::vector<std::int64_t> fanouts, std::optional<In<float>> weights, Numbers time) {
    if (fanouts.size() != rule_.layers) throw InputError("a relation needs a fan-out a layer");
    std::lock_guard<std::mutex> hold(workers_.lock());
    Held& held = held_.emplace_back(
        Held{std::move(indptr), std::move(indices), std::move(weights), std::move(time), {}, {}});
    TypedRelation<Id> made{{view(held.indptr), view(held.indices)},
                           source,
                           target,
                           std::move(fanouts),
                           {},
                           view_or_none(held.time)};
    Released released;
    check_relation(made, graph_.num_nodes, 0);
    if (held.weights && held.weights->shape(0) != held.indices.shape(0)) {
      throw InputError("weights does not have an entry for each edge");
    }
    if (held.weights && rule_.labor) {
      made.values = view(*held.weights);
    } else if (held.weights) {
      prepare_weights(view(held.indptr), view(*held.weights), held.cells, held.positive, 0);
      made.weights = {
          view(*held.weights), {held.cells.data(), held.weights->shape(0)}, held.positive};
    }
    graph_.relations.push_back(std::move(made));
  }

  Minibatches sample(const std::vector<Group>& groups, std::size_t count, std::uint64_t seed,
                     std::uint64_t epoch, std::uint64_t first_batch, int threads,
                     const std::vector<LeftOut>& exclude) {
    const std::vector<TypedSeeds> seeds = seeds_of(groups);
    std::vector<ExcludedEdges> excluded;
    for (const LeftOut& own : exclude) excluded.push_back(excluded_of(own));
    return workers_.make(count, [&](std::span<TypedArrays<Id>* const> places) {
      const int some = worth(threads, seeds, count);
      sample_typed<Id>(graph_, rule_, seeds, seed, epoch, first_batch, some, workers_.some(some),
                       places, excluded);
    });
  }

  std::size_t table_bytes() const { return workers_.bytes(); }

 private:
  struct Held {
    In<std::int64_t> indptr;
    In<Id> indices;
    std::optional<In<float>> weights;
    Numbers time;
    Buffer<AliasCell> cells;
    std::vector<std::uint32_t> positive;
  };

  // Threads worth waking: fan-outs of all relations together bound the edges.
  int worth(int threads, const std::vector<TypedSeeds>& seeds, std::size_t count) const {
    std::vector<std::int64_t> fanouts(rule_.layers, 0);
    std::int64_t rows = 0, edges = 0;
    for (const auto& group : seeds) rows += static_cast<std::int64_t>(group.seeds.size());
    for (const auto& relation : graph_.relations) {
      edges += static_cast<std::int64_t>(relation.graph.indices.size());
      for (std::size_t l = 0; l < rule_.layers; ++l) {
        const std::int64_t own = relation.fanouts[l];
        fanouts[l] = own < 0 || fanouts[l] < 0 ? -1 : fanouts[l] + own;
      }
    }
    for (std::int64_t& fanout : fanouts) fanout = fanout == 0 ? 1 : fanout;
    const std::int64_t copies = rule_.trees ? rows : static_cast<std::int64_t>(count);
    const std::int64_t most = edges * static_cast<std::int64_t>(rule_.layers) * copies;
    return useful_threads(threads, fanouts, rows, most);
  }

  TypedGraph<Id> graph_;
  TypedRule rule_;
  std::deque<Held> held_;  // of each relation; addresses stay
  TypedWorkers<Id, TypedWorker<Id>> workers_;
};

template <typename Id>
void bind(nb::module_& m, const char* name) {
  using K = TypedKernel<Id>;
  nb::class_<K>(m, name, "Bulk neighbour sampling over one graph with types.")
      .def(nb::init<std::vector<std::int64_t>, std::int64_t, bool, bool, bool, bool>(),
           nb::arg("num_nodes"), nb::arg("layers"), nb::arg("replace"), nb::arg("trees"),
           nb::arg("last"), nb::arg("induced"))
      .def("use_labor", &K::use_labor, nb::arg("same"), nb::arg("weight"),
           "Draws by LABOR, before relations are added: the same numbers in all layers; weights of "
           "edges 0 for none, 1 exact, 2 reference. Weights of relations are then its matrix.")
      .def("add", &K::add, nb::arg("source"), nb::arg("target"), nb::arg("indptr").noconvert(),
           nb::arg("indices").noconvert(), nb::arg("fanouts"),
           nb::arg("weights").noconvert().none() = nb::none(),
           nb::arg("time").noconvert().none() = nb::none(),
           "Adds the next relation; types are numbers. Rows ascend by time where it is given.")
      .def("sample", &K::sample, nb::arg("groups").noconvert(), nb::arg("count"), nb::arg("seed"),
           nb::arg("epoch"), nb::arg("first_batch"), nb::arg("threads") = 0,
           nb::arg("exclude") = std::vector<LeftOut>(),
           "Minibatches as ([(node, num_nodes, seed_position, tree) a type], "
           "[(row, col, num_edges, edge, weight) a relation]); a group of seeds is (type, seeds, "
           "ptr, "
           "rows, times), and what a relation leaves out (ptr, target, source, edge, tree, whether "
           "sources ascend) or None.")
      .def_prop_ro("table_bytes", &K::table_bytes, "Bytes kept for all threads.");
}

}  // namespace

void bind_typed_sample(nb::module_& m) {
  bind<std::uint32_t>(m, "TypedKernel32");
  bind<std::int64_t>(m, "TypedKernel64");
}

}  // namespace foregather::python
