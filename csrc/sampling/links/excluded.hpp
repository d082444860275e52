// Excluded: edges that a minibatch leaves out of the rows they are in, before anything is drawn.
//
// Entries name edges by their ends (all parallel edges between them) or by position. For one
// minibatch they become positions by row, ascending, each once; rows of a minibatch of trees belong
// to one tree. Before a layer is sampled, place() finds those of its rows from which something is
// left out. In most minibatches these are the seeds, so the layers after the first have none and
// are sampled as ever.
//
// Memory: 40 bytes per entry and 4 bytes per row of a layer that has any; kept for the next
// minibatch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/types.hpp"
#include "sampling/nodewise/expand.hpp"

namespace foregather {

/// What k minibatches leave out of one relation; a view. Without ptr: nothing.
struct ExcludedEdges {
  std::span<const std::int64_t> ptr;     ///< minibatch i has the entries ptr[i] .. ptr[i + 1]
  std::span<const std::int64_t> target;  ///< whose row it is; empty: edges are given
  std::span<const std::int64_t> source;  ///< empty: edges are given
  std::span<const std::int64_t> edge;    ///< positions in the relation; empty: ends are given
  std::span<const std::int64_t> tree;    ///< of each entry; empty: of the whole minibatch
  bool ascending = true;                 ///< whether sources ascend in rows

  /// Throws InputError unless there is an entry of everything, for `count` minibatches.
  void check(std::size_t count) const {
    if (ptr.empty()) return;
    const std::size_t all = edge.empty() ? target.size() : edge.size();
    if (ptr.size() != count + 1 || ptr.front() != 0 ||
        ptr.back() != static_cast<std::int64_t>(all) || !std::is_sorted(ptr.begin(), ptr.end()) ||
        (edge.empty() && source.size() != all) || (!tree.empty() && tree.size() != all)) {
      throw InputError("what is left out is not cut into minibatches");
    }
  }
};

/// What one minibatch leaves out of one relation, by row.
class ExcludedRows {
 public:
  /// Finds the edges that minibatch `index` leaves out. Throws InputError for what is not in the
  /// graph's range.
  template <typename Id>
  void begin(const ExcludedEdges& given, std::size_t index, const Topology<Id>& graph);

  bool empty() const { return rows_.empty(); }

  /// From here on only rows of this tree are placed.
  void select(std::int64_t tree) {
    const auto [first, last] =
        std::equal_range(rows_.begin(), rows_.end(), Row{tree, 0, 0, 0},
                         [](const Row& a, const Row& b) { return a.tree < b.tree; });
    wait(static_cast<std::size_t>(first - rows_.begin()),
         static_cast<std::size_t>(last - rows_.begin()));
  }

  /// Finds the rows among the local ids [first, last); find(tree, target) is a local id, or one
  /// beyond all. Layers come in order: what was found before `first` is not looked for again.
  /// Returns whether there are any.
  template <typename Find>
  bool place(std::int64_t first, std::int64_t last, const Find& find);

  /// The positions that are left out of a row that was placed.
  template <typename Id>
  std::span<const std::int64_t> of(const FrontierRow<Id>& row) const {
    const std::uint32_t number = at_[static_cast<std::size_t>(row.local - first_)];
    if (number == 0) return {};
    const Row& own = rows_[number - 1];
    const std::int64_t* from = edges_.data();
    const std::int64_t* first = std::lower_bound(from + own.first, from + own.last, row.begin);
    return {first, std::lower_bound(first, from + own.last, row.begin + row.degree)};
  }

  std::size_t bytes() const {
    return entries_.capacity() * sizeof(Entry) + rows_.capacity() * sizeof(Row) +
           edges_.capacity() * sizeof(std::int64_t) +
           (waiting_.capacity() + at_.capacity()) * sizeof(std::uint32_t);
  }

 private:
  using Entry = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // tree, target, edge
  struct Row {
    std::int64_t tree, target;
    std::size_t first, last;  ///< its edges
  };
  void wait(std::size_t first, std::size_t last) {
    waiting_.clear();
    for (std::size_t i = first; i < last; ++i) waiting_.push_back(static_cast<std::uint32_t>(i));
  }

  std::vector<Entry> entries_;
  std::vector<Row> rows_;
  std::vector<std::int64_t> edges_;
  std::vector<std::uint32_t> waiting_;  ///< rows that may still be met
  std::vector<std::uint32_t> at_;       ///< of each local id from first_ on: its row + 1, or 0
  std::int64_t first_ = 0;
};

template <typename Id>
void ExcludedRows::begin(const ExcludedEdges& given, std::size_t index, const Topology<Id>& graph) {
  entries_.clear();
  rows_.clear();
  edges_.clear();
  waiting_.clear();
  if (given.ptr.empty()) return;
  const auto indptr = graph.indptr;
  const auto within = [](std::int64_t value, std::int64_t count, const char* what) {
    if (value >= 0 && value < count) return;
    throw InputError(std::string("what is left out names ") + what + " " + std::to_string(value) +
                     ", but there are " + std::to_string(count));
  };
  for (auto i = static_cast<std::size_t>(given.ptr[index]);
       i < static_cast<std::size_t>(given.ptr[index + 1]); ++i) {
    const std::int64_t tree = given.tree.empty() ? 0 : given.tree[i];
    if (given.source.empty()) {
      within(given.edge[i], indptr.back(), "edge");
      const auto end = std::upper_bound(indptr.begin(), indptr.end(), given.edge[i]);
      entries_.emplace_back(tree, end - indptr.begin() - 1, given.edge[i]);
      continue;
    }
    within(given.target[i], graph.num_nodes(), "target");
    const auto row = static_cast<std::size_t>(given.target[i]);
    const Id* first = graph.indices.data() + indptr[row];
    const Id* last = graph.indices.data() + indptr[row + 1];
    const auto source = static_cast<Id>(given.source[i]);
    if (static_cast<std::int64_t>(source) != given.source[i]) continue;  // no id is that large
    if (given.ascending) std::tie(first, last) = std::equal_range(first, last, source);
    for (; first != last; ++first) {
      if (*first == source) {
        entries_.emplace_back(tree, given.target[i], first - graph.indices.data());
      }
    }
  }
  std::sort(entries_.begin(), entries_.end());
  entries_.erase(std::unique(entries_.begin(), entries_.end()), entries_.end());
  for (const auto& [tree, target, edge] : entries_) {
    if (rows_.empty() || rows_.back().tree != tree || rows_.back().target != target) {
      rows_.push_back({tree, target, edges_.size(), edges_.size()});
    }
    edges_.push_back(edge);
    rows_.back().last = edges_.size();
  }
  wait(0, rows_.size());
}

template <typename Find>
bool ExcludedRows::place(std::int64_t first, std::int64_t last, const Find& find) {
  bool any = false;
  std::size_t kept = 0;
  for (const std::uint32_t number : waiting_) {
    const auto local = static_cast<std::int64_t>(find(rows_[number].tree, rows_[number].target));
    if (local < first) continue;
    waiting_[kept++] = number;
    if (local >= last) continue;
    if (!any) at_.assign(static_cast<std::size_t>(last - first), 0);
    any = true;
    at_[static_cast<std::size_t>(local - first)] = number + 1;
  }
  waiting_.resize(kept);
  first_ = first;
  return any;
}

}  // namespace foregather
