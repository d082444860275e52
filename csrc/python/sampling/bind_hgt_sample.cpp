#include <deque>
#include <memory>
#include <mutex>

#include "parallel/pool.hpp"
#include "python/sampling/typed_bulk.hpp"
#include "sampling/typed/check_relation.hpp"
#include "sampling/typed/hgt_sample.hpp"

namespace foregather::python {
namespace {

// The sampler over one typed graph; keeps the relations' arrays, the threads' states and the pool.
template <typename Id>
class HgtKernel {
 public:
  HgtKernel(std::vector<std::int64_t> num_nodes, std::vector<std::vector<std::int64_t>> numbers) {
    graph_.num_nodes = std::move(num_nodes);
    rule_.layers = numbers.empty() ? 0 : numbers[0].size();
    rule_.numbers = std::move(numbers);
  }

  void add(std::size_t source, std::size_t target, In<std::int64_t> indptr, In<Id> indices) {
    std::lock_guard<std::mutex> hold(workers_.lock());
    Held& held = held_.emplace_back(Held{std::move(indptr), std::move(indices)});
    TypedRelation<Id> made{{view(held.indptr), view(held.indices)}, source, target, {}};
    Released released;
    check_relation(made, graph_.num_nodes, 0);
    graph_.relations.push_back(std::move(made));
  }

  Minibatches sample(const std::vector<Group>& groups, std::size_t count, std::uint64_t seed,
                     std::uint64_t epoch, std::uint64_t first_batch, int threads) {
    const std::vector<TypedSeeds> seeds = seeds_of(groups);
    return workers_.make(count, [&](std::span<TypedArrays<Id>* const> places) {
      const int some = threads > 0 ? threads : default_threads();
      sample_hgt<Id>(graph_, rule_, seeds, seed, epoch, first_batch, some, workers_.some(some),
                     places);
    });
  }

  std::size_t table_bytes() const { return workers_.bytes(); }

 private:
  struct Held {
    In<std::int64_t> indptr;
    In<Id> indices;
  };

  TypedGraph<Id> graph_;
  HgtRule rule_;
  std::deque<Held> held_;  // of each relation; addresses stay
  TypedWorkers<Id, HgtWorker<Id>> workers_;
};

template <typename Id>
void bind(nb::module_& m, const char* name) {
  using K = HgtKernel<Id>;
  nb::class_<K>(m, name, "The sampler of the Heterogeneous Graph Transformer over one graph.")
      .def(nb::init<std::vector<std::int64_t>, std::vector<std::vector<std::int64_t>>>(),
           nb::arg("num_nodes"), nb::arg("numbers"), "Numbers of nodes by type and layer.")
      .def("add", &K::add, nb::arg("source"), nb::arg("target"), nb::arg("indptr").noconvert(),
           nb::arg("indices").noconvert(), "Adds the next relation; types are numbers.")
      .def("sample", &K::sample, nb::arg("groups").noconvert(), nb::arg("count"), nb::arg("seed"),
           nb::arg("epoch"), nb::arg("first_batch"), nb::arg("threads") = 0,
           "Minibatches as those of TypedKernel32; edges have no layers.")
      .def_prop_ro("table_bytes", &K::table_bytes, "Bytes kept for all threads.");
}

}  // namespace

void bind_hgt_sample(nb::module_& m) {
  bind<std::uint32_t>(m, "HgtKernel32");
  bind<std::int64_t>(m, "HgtKernel64");
}

}  // namespace foregather::python
