// Typed bulk: what the kernels of graphs with types take from Python and hand back.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "python/arrays.hpp"
#include "python/sampling/array_pool.hpp"
#include "python/sampling/excluded_edges.hpp"
#include "sampling/typed/typed_graph.hpp"

namespace foregather::python {

// (type, seeds, ptr, rows or None, times or None)
using Group = std::tuple<std::size_t, In<std::int64_t>, In<std::int64_t>, Numbers, Numbers>;

/// Views of the groups, which must outlive them.
inline std::vector<TypedSeeds> seeds_of(const std::vector<Group>& groups) {
  std::vector<TypedSeeds> seeds;
  for (const auto& [type, ids, ptr, rows, times] : groups) {
    seeds.push_back({type, view(ids), view(ptr), view_or_none(rows), view_or_none(times)});
  }
  return seeds;
}

// ([(node, num_nodes, seed_position or None, tree or None) per type],
//  [(row, col, num_edges, edge, weight or None) per relation])
template <typename Id>
nb::tuple hand_over_typed(std::shared_ptr<Shelf<TypedArrays<Id>>> pool,
                          std::unique_ptr<TypedArrays<Id>> arrays) {
  using Lent = Loan<TypedArrays<Id>>;
  auto* loan = new Lent{std::move(pool), std::move(arrays)};
  nb::capsule owner(loan, [](void* p) noexcept { delete static_cast<Lent*>(p); });
  nb::list types, relations;
  for (const TypeArrays<Id>& a : loan->arrays->types) {
    const std::int64_t nodes = a.num_nodes.back();
    nb::object repeated = nb::none(), tree = nb::none();
    if (!a.seed_position.empty()) {
      repeated = nb::cast(
          lend(a.seed_position.data(), static_cast<std::int64_t>(a.seed_position.size()), owner));
    }
    if (loan->arrays->in_trees) tree = nb::cast(lend(a.tree.data(), nodes, owner));
    types.append(nb::make_tuple(lend(a.node.data(), nodes, owner), a.num_nodes, repeated, tree));
  }
  for (const RelationArrays& a : loan->arrays->relations) {
    nb::object weight = nb::none();
    if (a.weighted) weight = nb::cast(lend(a.weight.data(), a.count, owner));
    relations.append(nb::make_tuple(lend(a.row.data(), a.count, owner),
                                    lend(a.col.data(), a.count, owner), a.num_edges,
                                    lend(a.edge.data(), a.count, owner), weight));
  }
  return nb::make_tuple(types, relations);
}

/// The states of a kernel's threads, which serve one call at a time, and the arrays they fill.
template <typename Id, typename Worker>
class TypedWorkers {
 public:
  std::mutex& lock() { return lock_; }

  std::size_t bytes() const {
    std::size_t total = 0;
    for (const auto& worker : workers_) total += worker.bytes();
    return total;
  }

  /// The states of that number of threads; under the lock.
  std::span<Worker> some(int threads) {
    const auto count = static_cast<std::size_t>(threads);
    if (workers_.size() < count) workers_.resize(count);
    return workers_;
  }

  /// `count` minibatches: work(places) fills them, without the GIL and under the lock.
  template <typename Work>
  Minibatches make(std::size_t count, const Work& work) {
    std::vector<std::unique_ptr<TypedArrays<Id>>> results;
    {
      Released released;
      std::lock_guard<std::mutex> hold(lock_);
      std::vector<TypedArrays<Id>*> places;
      for (std::size_t i = 0; i < count; ++i) {
        results.push_back(pool_->take());
        places.push_back(results.back().get());
      }
      work(std::span<TypedArrays<Id>* const>(places));
    }
    nb::list list;
    for (auto& arrays : results) list.append(hand_over_typed<Id>(pool_, std::move(arrays)));
    return nb::borrow<Minibatches>(list);
  }

 private:
  std::mutex lock_;
  std::vector<Worker> workers_;
  std::shared_ptr<Shelf<TypedArrays<Id>>> pool_ = std::make_shared<Shelf<TypedArrays<Id>>>();
};

}  // namespace foregather::python
