#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>

#include "arrays.hpp"
#include "foregather/pool.hpp"
#include "foregather/sample.hpp"
#include "shelf.hpp"

namespace foregather::python {
namespace {

// One sampler over one graph; keeps the graph's arrays, the threads' tables and the shelf.
template <typename Id>
class NeighborKernel {
 public:
  NeighborKernel(In<std::int64_t> indptr, In<Id> indices, std::vector<std::int64_t> fanouts,
                 bool replace, bool once)
      : indptr_(std::move(indptr)),
        indices_(std::move(indices)),
        rule_{std::move(fanouts), replace, once} {
    const auto ends = view(indptr_);
    if (ends.empty() || ends.front() != 0 ||
        ends.back() != static_cast<std::int64_t>(indices_.shape(0))) {
      throw InputError("indptr does not describe indices");
    }
  }

  Minibatches sample(const In<std::int64_t>& seeds, const In<std::int64_t>& ptr, std::uint64_t seed,
                     std::uint64_t epoch, std::uint64_t first_batch, int threads) {
    const std::size_t count = ptr.shape(0) > 0 ? ptr.shape(0) - 1 : 0;
    std::vector<std::unique_ptr<SampleArrays<Id>>> results;
    {
      nb::gil_scoped_release released;
      std::lock_guard<std::mutex> hold(lock_);
      if (threads <= 0) threads = default_threads();
      if (workers_.size() < static_cast<std::size_t>(threads)) {
        workers_.resize(static_cast<std::size_t>(threads));
      }
      std::vector<SampleArrays<Id>*> places;
      for (std::size_t i = 0; i < count; ++i) {
        results.push_back(shelf_->take());
        places.push_back(results.back().get());
      }
      sample_neighbors<Id>({view(indptr_), view(indices_)}, rule_, view(seeds), view(ptr), seed,
                           epoch, first_batch, threads, workers_, places);
    }
    nb::list made;
    for (auto& arrays : results) made.append(hand_over<Id>(shelf_, std::move(arrays)));
    return nb::borrow<Minibatches>(made);
  }

  std::size_t table_bytes() const {
    std::size_t total = 0;
    for (const auto& worker : workers_) total += worker.bytes();
    return total;
  }

 private:
  In<std::int64_t> indptr_;
  In<Id> indices_;
  NeighborRule rule_;
  std::mutex lock_;  // the workers' tables serve one call at a time
  std::vector<NeighborWorker<Id>> workers_;
  std::shared_ptr<Shelf<Id>> shelf_ = std::make_shared<Shelf<Id>>();
};

template <typename Id>
void bind(nb::module_& m, const char* name) {
  using Kernel = NeighborKernel<Id>;
  nb::class_<Kernel>(m, name, "Bulk neighbour sampling over one graph.")
      .def(nb::init<In<std::int64_t>, In<Id>, std::vector<std::int64_t>, bool, bool>(),
           nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("fanouts"),
           nb::arg("replace"), nb::arg("once"))
      .def("sample", &Kernel::sample, nb::arg("seeds").noconvert(), nb::arg("ptr").noconvert(),
           nb::arg("seed"), nb::arg("epoch"), nb::arg("first_batch"), nb::arg("threads") = 0,
           "Minibatches as (node, num_nodes, row, col, num_edges, edge, seed_position).")
      .def_prop_ro("table_bytes", &Kernel::table_bytes, "Bytes kept for all threads.");
}

}  // namespace

void bind_sample(nb::module_& m) {
  bind<std::uint32_t>(m, "NeighborKernel32");
  bind<std::int64_t>(m, "NeighborKernel64");
}

}  // namespace foregather::python
