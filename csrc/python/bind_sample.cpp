#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>

#include "arrays.hpp"
#include "foregather/pool.hpp"
#include "foregather/sample.hpp"

namespace foregather::python {
namespace {

using Minibatches = nb::typed<nb::list, nb::typed<nb::tuple, nb::any, nb::ellipsis>>;

// Result arrays are lent to Python and come back for the next bulk when the last view is gone.
template <typename Id>
class Shelf : public std::enable_shared_from_this<Shelf<Id>> {
 public:
  std::unique_ptr<SampleArrays<Id>> take() {
    std::lock_guard<std::mutex> hold(lock_);
    if (free_.empty()) return std::make_unique<SampleArrays<Id>>();
    auto arrays = std::move(free_.back());
    free_.pop_back();
    return arrays;
  }
  void give(std::unique_ptr<SampleArrays<Id>> arrays) {
    std::lock_guard<std::mutex> hold(lock_);
    if (free_.size() < kMost) free_.push_back(std::move(arrays));
  }

 private:
  static constexpr std::size_t kMost = 256;
  std::mutex lock_;
  std::vector<std::unique_ptr<SampleArrays<Id>>> free_;
};

template <typename Id>
struct Loan {
  std::shared_ptr<Shelf<Id>> shelf;
  std::unique_ptr<SampleArrays<Id>> arrays;
  ~Loan() { shelf->give(std::move(arrays)); }
};

template <typename T>
nb::ndarray<nb::numpy, const T, nb::ndim<1>> lend(const T* data, std::int64_t count,
                                                  nb::handle owner) {
  return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(data, {static_cast<std::size_t>(count)},
                                                      owner);
}

// (node, num_nodes, row, col, num_edges, edge, seed_position or None)
template <typename Id>
nb::tuple hand_over(std::shared_ptr<Shelf<Id>> shelf, std::unique_ptr<SampleArrays<Id>> arrays) {
  auto* loan = new Loan<Id>{std::move(shelf), std::move(arrays)};
  nb::capsule owner(loan, [](void* p) noexcept { delete static_cast<Loan<Id>*>(p); });
  const SampleArrays<Id>& a = *loan->arrays;
  std::int64_t edges = 0;
  for (std::int64_t count : a.num_edges) edges += count;
  nb::object repeated = nb::none();
  if (!a.seed_position.empty()) {
    repeated = nb::cast(
        lend(a.seed_position.data(), static_cast<std::int64_t>(a.seed_position.size()), owner));
  }
  return nb::make_tuple(lend(a.node.data(), a.num_nodes.back(), owner), a.num_nodes,
                        lend(a.row.data(), edges, owner), lend(a.col.data(), edges, owner),
                        a.num_edges, lend(a.edge.data(), edges, owner), repeated);
}

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
