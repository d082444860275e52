// ArrayPool: result arrays of bulk samplers, lent to Python and used again.
//
// A sampler takes arrays from its pool, fills them and hands them to Python as read-only NumPy
// views. They come back when the last view is gone, so a steady state allocates nothing. The pool
// outlives the sampler as long as anything is on loan.
#pragma once

#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "parallel/pool.hpp"
#include "python/arrays.hpp"
#include "sampling/nodewise/sample.hpp"

namespace foregather::python {

using Minibatches = nb::typed<nb::list, nb::typed<nb::tuple, nb::any, nb::ellipsis>>;

// Result arrays are lent to Python and come back for the next bulk when the last view is gone.
template <typename Arrays>
class Shelf {
 public:
  std::unique_ptr<Arrays> take() {
    std::lock_guard<std::mutex> hold(lock_);
    if (free_.empty()) return std::make_unique<Arrays>();
    auto arrays = std::move(free_.back());
    free_.pop_back();
    return arrays;
  }
  void give(std::unique_ptr<Arrays> arrays) {
    std::lock_guard<std::mutex> hold(lock_);
    if (free_.size() < kMost) free_.push_back(std::move(arrays));
  }

 private:
  static constexpr std::size_t kMost = 256;
  std::mutex lock_;
  std::vector<std::unique_ptr<Arrays>> free_;
};

template <typename Id>
using ArrayPool = Shelf<SampleArrays<Id>>;

template <typename Arrays>
struct Loan {
  std::shared_ptr<Shelf<Arrays>> pool;
  std::unique_ptr<Arrays> arrays;
  ~Loan() { pool->give(std::move(arrays)); }
};

template <typename T>
nb::ndarray<nb::numpy, const T, nb::ndim<1>> lend(const T* data, std::int64_t count,
                                                  nb::handle owner) {
  return nb::ndarray<nb::numpy, const T, nb::ndim<1>>(data, {static_cast<std::size_t>(count)},
                                                      owner);
}

// (node, num_nodes, row, col, num_edges, edge, seed_position or None, weight or None, tree or None)
template <typename Id>
nb::tuple hand_over(std::shared_ptr<ArrayPool<Id>> pool, std::unique_ptr<SampleArrays<Id>> arrays) {
  using Lent = Loan<SampleArrays<Id>>;
  auto* loan = new Lent{std::move(pool), std::move(arrays)};
  nb::capsule owner(loan, [](void* p) noexcept { delete static_cast<Lent*>(p); });
  const SampleArrays<Id>& a = *loan->arrays;
  std::int64_t edges = 0;
  for (std::int64_t count : a.num_edges) edges += count;
  nb::object repeated = nb::none();
  if (!a.seed_position.empty()) {
    repeated = nb::cast(
        lend(a.seed_position.data(), static_cast<std::int64_t>(a.seed_position.size()), owner));
  }
  nb::object weight = nb::none();
  if (a.weighted) weight = nb::cast(lend(a.weight.data(), edges, owner));
  nb::object tree = nb::none();
  if (a.in_trees) tree = nb::cast(lend(a.tree.data(), a.num_nodes.back(), owner));
  return nb::make_tuple(lend(a.node.data(), a.num_nodes.back(), owner), a.num_nodes,
                        lend(a.row.data(), edges, owner), lend(a.col.data(), edges, owner),
                        a.num_edges, lend(a.edge.data(), edges, owner), repeated, weight, tree);
}

// The minibatches of a bulk: work(places) fills one array set for each part that `ptr` cuts,
// without the GIL and under the kernel's lock.
template <typename Id, typename Work>
Minibatches make_minibatches(const std::shared_ptr<ArrayPool<Id>>& pool, std::mutex& lock,
                             const In<std::int64_t>& ptr, Work&& work) {
  std::vector<std::unique_ptr<SampleArrays<Id>>> results;
  {
    Released released;
    std::lock_guard<std::mutex> hold(lock);
    std::vector<SampleArrays<Id>*> places;
    for (std::size_t i = 0; i + 1 < ptr.shape(0); ++i) {
      results.push_back(pool->take());
      places.push_back(results.back().get());
    }
    work(places);
  }
  nb::list made;
  for (auto& arrays : results) made.append(hand_over<Id>(pool, std::move(arrays)));
  return nb::borrow<Minibatches>(made);
}

// Gives each thread (0 threads: all of them) a state of its own; returns their number.
template <typename Worker>
int provide_workers(std::vector<Worker>& workers, int threads) {
  if (threads <= 0) threads = default_threads();
  const auto wanted = static_cast<std::size_t>(threads);
  if (workers.size() < wanted) workers.resize(wanted);
  return threads;
}

}  // namespace foregather::python
