#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <optional>

#include "parallel/pool.hpp"
#include "python/arrays.hpp"
#include "python/sampling/array_pool.hpp"
#include "python/sampling/excluded_edges.hpp"
#include "python/sampling/joined_bulk.hpp"
#include "sampling/nodewise/labor.hpp"
#include "sampling/nodewise/sample.hpp"
#include "sampling/nodewise/trees.hpp"
#include "sampling/picking/alias.hpp"

namespace foregather::python {
namespace {

using Weights = std::optional<In<float>>;

// One node-wise sampler over one graph; keeps the graph's arrays, the threads' states and the
// pool.
template <typename Id, typename Worker, typename Rule>
class Kernel {
 public:
  Kernel(In<std::int64_t> indptr, In<Id> indices, Rule rule)
      : indptr_(std::move(indptr)), indices_(std::move(indices)), rule_(std::move(rule)) {
    check_topology(indptr_, indices_);
  }

  Minibatches sample(const In<std::int64_t>& seeds, const In<std::int64_t>& ptr, std::uint64_t seed,
                     std::uint64_t epoch, std::uint64_t first_batch, int threads,
                     const LeftOut& exclude) {
    return run(ptr, threads, [&](int used, const Places& places) {
      sample_bulk<Id, Worker, Rule>({view(indptr_), view(indices_)}, rule_, view(seeds), view(ptr),
                                    seed, epoch, first_batch, used, workers_, places,
                                    excluded_of(exclude));
    });
  }

  // All minibatches one after another, as the tensors of their batches; see JoinedBulk.
  JoinedArrays sample_joined(const In<std::int64_t>& seeds, const In<std::int64_t>& ptr,
                             std::uint64_t seed, std::uint64_t epoch, std::uint64_t first_batch,
                             int threads, const LeftOut& exclude) {
    if (gives_weights(rule_)) throw InputError("minibatches with weights are not joined");
    Arrays results = made(ptr, threads, [&](int used, const Places& places) {
      sample_bulk<Id, Worker, Rule>({view(indptr_), view(indices_)}, rule_, view(seeds), view(ptr),
                                    seed, epoch, first_batch, used, workers_, places,
                                    excluded_of(exclude));
    });
    JoinedBulk joined;
    {
      Released released;
      joined = join<Id>(results);
      for (auto& arrays : results) pool_->give(std::move(arrays));
    }
    return to_tuple(std::move(joined));
  }

  Minibatches sample_trees(const In<std::int64_t>& seeds, const In<std::int64_t>& rows,
                           const In<std::int64_t>& ptr, std::uint64_t seed, std::uint64_t epoch,
                           int threads, const LeftOut& exclude) {
    return run(ptr, threads, [&](int used, const Places& places) {
      if (joins_.size() < workers_.size()) joins_.resize(workers_.size());
      foregather::sample_trees<Id, Worker, Rule>(
          {view(indptr_), view(indices_)}, rule_, view(seeds), view(rows), view(ptr), seed, epoch,
          used, workers_, joins_, places, excluded_of(exclude));
    });
  }

  std::size_t table_bytes() const {
    std::size_t total = 0;
    for (const auto& worker : workers_) total += worker.bytes();
    for (const auto& join : joins_) total += join.bytes();
    return total;
  }

 protected:
  In<std::int64_t> indptr_;
  In<Id> indices_;
  Rule rule_;

 private:
  using Arrays = std::vector<std::unique_ptr<SampleArrays<Id>>>;
  using Places = std::vector<SampleArrays<Id>*>;

  // Calls work(threads, results) without the GIL; `ptr` says how many results there are.
  template <typename Work>
  Arrays made(const In<std::int64_t>& ptr, int threads, Work&& work) {
    const std::size_t count = ptr.shape(0) > 0 ? ptr.shape(0) - 1 : 0;
    const std::int64_t seeds = count > 0 ? ptr.data()[count] : 0;
    const auto most = static_cast<std::int64_t>(indices_.shape(0) * rule_.fanouts.size() * count);
    Arrays results;
    Released released;
    std::lock_guard<std::mutex> hold(lock_);
    threads = useful_threads(threads, rule_.fanouts, seeds, most);
    if (workers_.size() < static_cast<std::size_t>(threads)) {
      workers_.resize(static_cast<std::size_t>(threads));
    }
    Places places;
    for (std::size_t i = 0; i < count; ++i) {
      results.push_back(pool_->take());
      places.push_back(results.back().get());
    }
    work(threads, places);
    return results;
  }

  template <typename Work>
  Minibatches run(const In<std::int64_t>& ptr, int threads, Work&& work) {
    Arrays results = made(ptr, threads, std::forward<Work>(work));
    nb::list list;
    for (auto& arrays : results) list.append(hand_over<Id>(pool_, std::move(arrays)));
    return nb::borrow<Minibatches>(list);
  }

  std::mutex lock_;  // the workers' states serve one call at a time
  std::vector<Worker> workers_;
  std::vector<TreeJoin<Id>> joins_;
  std::shared_ptr<ArrayPool<Id>> pool_ = std::make_shared<ArrayPool<Id>>();
};

template <typename Id>
class NeighborKernel : public Kernel<Id, NeighborWorker<Id>, NeighborRule> {
  using Base = Kernel<Id, NeighborWorker<Id>, NeighborRule>;

 public:
  NeighborKernel(In<std::int64_t> indptr, In<Id> indices, std::vector<std::int64_t> fanouts,
                 bool replace, bool once, Weights weights)
      : Base(std::move(indptr), std::move(indices), {std::move(fanouts), replace, once, {}}),
        weights_(std::move(weights)) {
    if (!weights_) return;
    Released released;
    prepare_weights(view(this->indptr_), view(*weights_), cells_, positive_, 0);
    this->rule_.weights = {view(*weights_), {cells_.data(), weights_->shape(0)}, positive_};
  }

 private:
  Weights weights_;
  Buffer<AliasCell> cells_;
  std::vector<std::uint32_t> positive_;
};

template <typename Id>
class LaborKernel : public Kernel<Id, LaborWorker<Id>, LaborRule> {
  using Base = Kernel<Id, LaborWorker<Id>, LaborRule>;

 public:
  LaborKernel(In<std::int64_t> indptr, In<Id> indices, std::vector<std::int64_t> fanouts, bool once,
              bool same, int weight, Weights values, std::uint64_t every)
      : Base(std::move(indptr), std::move(indices),
             {std::move(fanouts), once, same, static_cast<LaborWeight>(weight), {}, every}),
        values_(std::move(values)) {
    if (weight < 0 || weight > 2) throw InputError("the weighting of Labor is out of range");
    if (every == 0) throw InputError("numbers of Labor serve no minibatch; give at least 1");
    if (!values_) return;
    if (values_->shape(0) != this->indices_.shape(0)) {
      throw InputError("edge_weight does not have one entry for each edge");
    }
    this->rule_.values = view(*values_);
  }

 private:
  Weights values_;
};

template <typename K>
nb::class_<K> bind_kernel(nb::module_& m, const char* name, const char* text) {
  return nb::class_<K>(m, name, text)
      .def("sample", &K::sample, nb::arg("seeds").noconvert(), nb::arg("ptr").noconvert(),
           nb::arg("seed"), nb::arg("epoch"), nb::arg("first_batch"), nb::arg("threads") = 0,
           nb::arg("exclude").none() = nb::none(),
           "Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position, weight, "
           "None).")
      .def(
          "sample_joined", &K::sample_joined, nb::arg("seeds").noconvert(),
          nb::arg("ptr").noconvert(), nb::arg("seed"), nb::arg("epoch"), nb::arg("first_batch"),
          nb::arg("threads") = 0, nb::arg("exclude").none() = nb::none(),
          "All minibatches as int64 (node, row and col of each, edge), with new nodes and edges of "
          "each layer and the repeated seeds' positions.")
      .def("sample_trees", &K::sample_trees, nb::arg("seeds").noconvert(),
           nb::arg("rows").noconvert(), nb::arg("ptr").noconvert(), nb::arg("seed"),
           nb::arg("epoch"), nb::arg("threads") = 0, nb::arg("exclude").none() = nb::none(),
           "Minibatches of disjoint trees, keyed by rows; as sample() with each node's tree last.")
      .def_prop_ro("table_bytes", &K::table_bytes, "Bytes kept for all threads.");
}

template <typename Id>
void bind_draws(nb::module_& m);

template <typename Id>
void bind(nb::module_& m, const char* neighbor, const char* labor) {
  bind_kernel<NeighborKernel<Id>>(m, neighbor, "Bulk neighbour sampling over one graph.");
  bind_kernel<LaborKernel<Id>>(m, labor, "Bulk LABOR-0 sampling over one graph.");
  m.def(
      "neighbor_kernel",
      [](In<std::int64_t> indptr, In<Id> indices, std::vector<std::int64_t> fanouts, bool replace,
         bool once, Weights weights) {
        return new NeighborKernel<Id>(std::move(indptr), std::move(indices), std::move(fanouts),
                                      replace, once, std::move(weights));
      },
      nb::rv_policy::take_ownership, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
      nb::arg("fanouts"), nb::arg("replace"), nb::arg("once"),
      nb::arg("weights").noconvert().none() = nb::none(),
      "The kernel of a graph, for ids as wide as those of indices.");
  m.def(
      "labor_kernel",
      [](In<std::int64_t> indptr, In<Id> indices, std::vector<std::int64_t> fanouts, bool once,
         bool same, int weight, Weights values, std::uint64_t every) {
        return new LaborKernel<Id>(std::move(indptr), std::move(indices), std::move(fanouts), once,
                                   same, weight, std::move(values), every);
      },
      nb::rv_policy::take_ownership, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
      nb::arg("fanouts"), nb::arg("once"), nb::arg("same"), nb::arg("weight"),
      nb::arg("values").noconvert().none() = nb::none(), nb::arg("every") = 1,
      "The kernel of a graph, for ids as wide as those of indices.");
  bind_draws<Id>(m);
}

template <typename Id>
void bind_draws(nb::module_& m) {
  m.def(
      "draw_rows",
      [](const In<Id>& rows, const In<std::int64_t>& batch_ptr, const In<std::int64_t>& ptr,
         const In<double>& weights, const In<std::uint64_t>& keys, std::int64_t s, bool replace,
         const In<std::int64_t>& picks_ptr, const Out<std::int64_t>& picks, int threads) {
        Released released;
        draw_rows<Id>(view(rows), view(batch_ptr), view(ptr), view(weights), view(keys), s, replace,
                      view(picks_ptr), view(picks), threads > 0 ? threads : default_threads());
      },
      nb::arg("rows").noconvert(), nb::arg("batch_ptr").noconvert(), nb::arg("ptr").noconvert(),
      nb::arg("weights").noconvert(), nb::arg("keys").noconvert(), nb::arg("s"), nb::arg("replace"),
      nb::arg("picks_ptr").noconvert(), nb::arg("picks").noconvert(), nb::arg("threads") = 0,
      "Fills picks with entries of each row, drawn by weight.");
  m.def(
      "column_draws",
      [](const In<std::int64_t>& entry_ptr, const In<Id>& columns, const In<std::uint64_t>& keys,
         const Out<std::uint32_t>& out, int threads) {
        Released released;
        column_draws<Id>(view(entry_ptr), view(columns), view(keys), view(out),
                         threads > 0 ? threads : default_threads());
      },
      nb::arg("entry_ptr").noconvert(), nb::arg("columns").noconvert(), nb::arg("keys").noconvert(),
      nb::arg("out").noconvert(), nb::arg("threads") = 0,
      "Fills out with one random number a column, the same for all rows of a batch.");
}

}  // namespace

void bind_sample(nb::module_& m, nb::module_& testing) {
  bind<std::uint32_t>(m, "NeighborKernel32", "LaborKernel32");
  bind<std::int64_t>(m, "NeighborKernel64", "LaborKernel64");
  m.def(
      "labor_limits",
      [](std::int64_t fanout, const In<std::int64_t>& degree) {
        std::vector<std::uint64_t> made(degree.shape(0));
        for (std::size_t i = 0; i < made.size(); ++i) {
          made[i] = labor_limit(fanout, degree.data()[i]);
        }
        return to_numpy(std::move(made));
      },
      nb::arg("fanout"), nb::arg("degree").noconvert(),
      "For each row, the number below which its entries are taken, of 2^32.");
  testing.def(
      "alias_row",
      [](const In<double>& weights, const Out<std::uint32_t>& keep,
         const Out<std::uint32_t>& other) {
        if (keep.shape(0) != weights.shape(0) || other.shape(0) != weights.shape(0)) {
          throw InputError("weights, keep and other differ in length");
        }
        std::vector<AliasCell> cells(weights.shape(0));
        AliasScratch scratch;
        alias_row(view(weights), std::span<AliasCell>(cells), scratch);
        for (std::size_t i = 0; i < cells.size(); ++i) {
          keep.data()[i] = cells[i].keep;
          other.data()[i] = cells[i].other;
        }
      },
      nb::arg("weights").noconvert(), nb::arg("keep").noconvert(), nb::arg("other").noconvert(),
      "The cells of one row of weights, not all 0.");
}

}  // namespace foregather::python
