#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel/pool.hpp"
#include "python/arrays.hpp"
#include "python/sampling/array_pool.hpp"
#include "sampling/keys.hpp"
#include "sampling/picking/draw.hpp"
#include "sampling/walk.hpp"

namespace foregather::python {
namespace {

Purpose purpose_of(bool presample) { return presample ? Purpose::kPresample : Purpose::kSample; }

// Subgraphs of one graph by one rule; keeps the graph's arrays, the threads' tables and the pool.
template <typename Id>
class SubgraphKernel {
 public:
  SubgraphKernel(In<std::int64_t> indptr, In<Id> indices, int kind, std::int64_t size,
                 std::int64_t length, std::int64_t walks)
      : indptr_(std::move(indptr)), indices_(std::move(indices)) {
    check_topology(indptr_, indices_);
    if (kind < 0 || kind > 3 || size < 0 || length < 0 || walks < 1) {
      throw InputError("the options of the subgraph sampler are out of range");
    }
    rule_ = {static_cast<SubgraphKind>(kind), size, length, walks, {}};
    Released released;
    if (rule_.kind == SubgraphKind::kNode || rule_.kind == SubgraphKind::kEdge) {
      cumulative_.resize(indptr_.shape(0) - 1);
      if (rule_.kind == SubgraphKind::kNode) cumulate_nodes<Id>(graph(), cumulative_);
      if (rule_.kind == SubgraphKind::kEdge) cumulate_edges<Id>(graph(), cumulative_);
      rule_.cumulative = cumulative_;
    }
  }

  Minibatches sample(const In<std::int64_t>& seeds, const In<std::int64_t>& ptr, std::uint64_t seed,
                     std::uint64_t epoch, std::uint64_t first_batch, int threads, bool presample) {
    return make_minibatches<Id>(pool_, lock_, ptr, [&](const auto& places) {
      const int used = provide_workers(workers_, threads);
      sample_subgraphs<Id>(graph(), rule_, view(seeds), view(ptr),
                           epoch_key(seed, purpose_of(presample), epoch), first_batch, used,
                           workers_, places);
    });
  }

  std::size_t table_bytes() const {
    std::size_t total = cumulative_.capacity() * sizeof(double);
    for (const auto& worker : workers_) total += worker.bytes();
    return total;
  }

 private:
  Topology<Id> graph() const { return {view(indptr_), view(indices_)}; }

  In<std::int64_t> indptr_;
  In<Id> indices_;
  std::vector<double> cumulative_;
  SubgraphRule rule_;
  std::mutex lock_;  // the workers' tables serve one call at a time
  std::vector<SubgraphWorker<Id>> workers_;
  std::shared_ptr<ArrayPool<Id>> pool_ = std::make_shared<ArrayPool<Id>>();
};

template <typename Id>
void random_walk(const In<std::int64_t>& indptr, const In<Id>& indices,
                 const In<std::int64_t>& starts, const In<std::int64_t>& ptr, std::int64_t length,
                 std::uint64_t seed, std::uint64_t epoch, std::uint64_t first_batch,
                 const Out<Id>& path, int threads) {
  check_topology(indptr, indices);
  const auto from = view(starts), cuts = view(ptr);
  if (length < 0 || cuts.empty() || cuts.front() != 0 ||
      cuts.back() != static_cast<std::int64_t>(from.size()) ||
      !std::is_sorted(cuts.begin(), cuts.end())) {
    throw InputError("ptr does not cut the starts into minibatches");
  }
  const std::size_t stride = static_cast<std::size_t>(length) + 1;
  if (path.shape(0) != from.size() * stride) {
    throw InputError("path does not hold length + 1 nodes for each start");
  }
  Released released;
  const Topology<Id> graph{view(indptr), view(indices)};
  if (threads <= 0) threads = default_threads();
  std::vector<Buffer<std::int64_t>> scratch(static_cast<std::size_t>(threads));
  const auto batches = static_cast<std::int64_t>(cuts.size()) - 1;
  parallel_tasks(batches, threads, [&](std::int64_t i, int worker) {
    const auto k = static_cast<std::size_t>(i);
    const auto first = static_cast<std::size_t>(cuts[k]);
    const auto count = static_cast<std::size_t>(cuts[k + 1]) - first;
    walk<Id>(graph, from.subspan(first, count), length, batch_key(seed, epoch, first_batch + k),
             view(path).subspan(first * stride, count * stride),
             scratch[static_cast<std::size_t>(worker)]);
  });
}

// One step of walks whose rows are not in memory: where in its row each walker goes.
void walk_draws(const In<std::uint64_t>& keys, const In<std::int64_t>& ptr,
                const In<std::int64_t>& starts, const In<std::int64_t>& degree,
                const Out<std::int64_t>& out) {
  const auto cuts = view(ptr), from = view(starts), degrees = view(degree);
  if (cuts.size() != keys.shape(0) + 1 || cuts.front() != 0 ||
      cuts.back() != static_cast<std::int64_t>(from.size()) || degrees.size() != from.size() ||
      out.shape(0) != from.size() || !std::is_sorted(cuts.begin(), cuts.end())) {
    throw InputError("ptr does not cut the starts into minibatches");
  }
  for (std::size_t batch = 0; batch < keys.shape(0); ++batch) {
    const std::int64_t first = cuts[batch];
    for (std::int64_t i = first; i < cuts[batch + 1]; ++i) {
      const auto at = static_cast<std::size_t>(i);
      out.data()[i] = degrees[at] <= 0
                          ? -1
                          : static_cast<std::int64_t>(
                                walk_draw(keys.data()[batch], static_cast<std::uint64_t>(from[at]),
                                          static_cast<std::uint64_t>(i - first),
                                          static_cast<std::uint32_t>(degrees[at])));
    }
  }
}

template <typename Id>
void bind(nb::module_& m, const char* name) {
  using Kernel = SubgraphKernel<Id>;
  nb::class_<Kernel>(m, name, "Bulks of induced subgraphs of one graph.")
      .def("sample", &Kernel::sample, nb::arg("seeds").noconvert(), nb::arg("ptr").noconvert(),
           nb::arg("seed"), nb::arg("epoch"), nb::arg("first_batch"), nb::arg("threads") = 0,
           nb::arg("presample") = false,
           "Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position).")
      .def_prop_ro("table_bytes", &Kernel::table_bytes, "Bytes kept for all threads.");
  m.def(
      "subgraph_kernel",
      [](In<std::int64_t> indptr, In<Id> indices, int kind, std::int64_t size, std::int64_t length,
         std::int64_t walks) {
        return new Kernel(std::move(indptr), std::move(indices), kind, size, length, walks);
      },
      nb::rv_policy::take_ownership, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
      nb::arg("kind"), nb::arg("size") = 0, nb::arg("length") = 0, nb::arg("walks") = 1,
      "The kernel of a graph, for ids as wide as those of indices.");
  m.def("random_walk", &random_walk<Id>, nb::arg("indptr").noconvert(),
        nb::arg("indices").noconvert(), nb::arg("starts").noconvert(), nb::arg("ptr").noconvert(),
        nb::arg("length"), nb::arg("seed"), nb::arg("epoch"), nb::arg("first_batch"),
        nb::arg("path").noconvert(), nb::arg("threads") = 0,
        "Walks of k minibatches; path is [starts, length + 1], flat.");
}

}  // namespace

void bind_walk(nb::module_& m) {
  bind<std::uint32_t>(m, "SubgraphKernel32");
  bind<std::int64_t>(m, "SubgraphKernel64");
  m.def("walk_draws", &walk_draws, nb::arg("keys").noconvert(), nb::arg("ptr").noconvert(),
        nb::arg("starts").noconvert(), nb::arg("degree").noconvert(), nb::arg("out").noconvert(),
        "The entry of its row that each walker takes in one step; -1 where the row is empty.");
  m.def(
      "unit_draws",
      [](std::uint64_t key, const Out<double>& out) {
        for (std::size_t i = 0; i < out.shape(0); ++i) out.data()[i] = to_unit(draw(key, i));
      },
      nb::arg("key"), nb::arg("out").noconvert(), "Numbers in [0, 1): the draws of a key.");
  m.def(
      "draw_roots",
      [](std::int64_t population, std::int64_t size, std::uint64_t seed, std::uint64_t first,
         const Out<std::int64_t>& out) {
        Released released;
        draw_sets(population, size, epoch_key(seed, Purpose::kRoots, 0), first, view(out));
      },
      nb::arg("population"), nb::arg("size"), nb::arg("seed"), nb::arg("first"),
      nb::arg("out").noconvert(), "Sets of `size` distinct numbers, one after another.");
}

}  // namespace foregather::python
