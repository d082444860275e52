#include "graph/check.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "parallel/pool.hpp"

namespace foregather {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  // edges worth a thread
constexpr std::int64_t kBlock = 4096;     // ids tested together without a branch

// Walks rows: keeps the row that holds edge `at` while `at` ascends.
class RowCursor {
 public:
  RowCursor(std::span<const std::int64_t> indptr, std::int64_t at) : indptr_(indptr) {
    const auto next = std::upper_bound(indptr.begin(), indptr.end(), at);
    row_ = std::max<std::int64_t>(0, next - indptr.begin() - 1);
  }
  /// Moves on to the row that holds edge `at`; beyond the last boundary stays at the last row.
  void advance(std::int64_t at) {
    while (row_ + 2 < static_cast<std::int64_t>(indptr_.size()) && indptr_[row_ + 1] <= at) ++row_;
  }
  std::int64_t row() const { return row_; }
  std::int64_t begin() const { return indptr_[row_]; }

 private:
  std::span<const std::int64_t> indptr_;
  std::int64_t row_;
};

std::uint64_t hash_edge(std::uint64_t from, std::uint64_t to) {
  return draw(derive(0x666f7265u, from), to);  // any fixed key: both directions use the same
}

void need_rows(std::span<const std::int64_t> indptr) {
  if (indptr.size() < 2) throw InputError("indptr holds no row; pass the boundaries of the chunk");
}

}  // namespace

std::int64_t check_indptr(std::span<const std::int64_t> indptr, std::int64_t previous) {
  for (std::size_t i = 0; i < indptr.size(); previous = indptr[i++]) {
    if (indptr[i] < previous) return static_cast<std::int64_t>(i);
  }
  return -1;
}

template <typename Id>
std::int64_t check_ids(std::span<const Id> ids, std::int64_t num_nodes, int threads) {
  if (threads <= 0) threads = default_threads();
  const auto limit = static_cast<std::uint64_t>(std::max<std::int64_t>(num_nodes, 0));
  auto outside = [&](std::int64_t i) { return static_cast<std::uint64_t>(ids[i]) >= limit; };
  std::vector<std::int64_t> found(static_cast<std::size_t>(threads), -1);
  parallel_for(static_cast<std::int64_t>(ids.size()), threads, kGrain,
               [&](std::int64_t begin, std::int64_t end, int part) {
                 for (std::int64_t at = begin; at < end; at += kBlock) {
                   const std::int64_t stop = std::min(end, at + kBlock);
                   bool any = false;
                   for (std::int64_t i = at; i < stop; ++i) any |= outside(i);
                   if (!any) continue;
                   while (!outside(at)) ++at;
                   found[static_cast<std::size_t>(part)] = at;
                   return;
                 }
               });
  for (std::int64_t position : found) {  // parts ascend, so the first found is the smallest
    if (position >= 0) return position;
  }
  return -1;
}

template <typename Id>
std::int64_t check_rows(std::span<const std::int64_t> indptr, std::span<const Id> indices,
                        std::int64_t start) {
  if (indices.size() < 2) return -1;
  need_rows(indptr);
  RowCursor cursor(indptr, start);
  for (std::size_t k = 1; k < indices.size(); ++k) {
    if (indices[k] >= indices[k - 1]) continue;
    const std::int64_t edge = start + static_cast<std::int64_t>(k);
    cursor.advance(edge);
    if (cursor.begin() != edge) return static_cast<std::int64_t>(k);  // not the start of a row
  }
  return -1;
}

template <typename Id>
void count_ids(std::span<const Id> ids, std::span<std::int64_t> counts) {
  const std::int64_t bad = check_ids(ids, static_cast<std::int64_t>(counts.size()), 1);
  if (bad >= 0) {
    throw InputError("id " + std::to_string(ids[static_cast<std::size_t>(bad)]) + " at position " +
                     std::to_string(bad) + " is outside 0 to " + std::to_string(counts.size()) +
                     " - 1");
  }
  for (const Id id : ids) ++counts[static_cast<std::size_t>(id)];
}

template <typename Id>
EdgeCounts count_edges(std::span<const std::int64_t> indptr, std::int64_t first_row,
                       std::span<const Id> indices, std::int64_t start, std::int64_t skip,
                       std::span<const std::int64_t> labels, int threads) {
  const auto size = static_cast<std::int64_t>(indices.size());
  if (skip < 0 || skip >= size) return {};
  need_rows(indptr);
  const auto nodes = static_cast<std::int64_t>(labels.size());
  const auto last_row = first_row + static_cast<std::int64_t>(indptr.size()) - 2;
  if (nodes > 0 &&
      (first_row < 0 || last_row >= nodes || check_ids(indices, nodes, threads) >= 0)) {
    throw InputError("the edges name nodes beyond the " + std::to_string(nodes) + " labels");
  }
  if (threads <= 0) threads = default_threads();
  std::vector<EdgeCounts> parts(static_cast<std::size_t>(threads));
  parallel_for(size - skip, threads, kGrain, [&](std::int64_t begin, std::int64_t end, int part) {
    EdgeCounts sum;
    RowCursor cursor(indptr, start + skip + begin);
    for (std::int64_t k = skip + begin; k < skip + end; ++k) {
      cursor.advance(start + k);
      const auto u = static_cast<std::uint64_t>(indices[k]);
      const auto v = static_cast<std::uint64_t>(first_row + cursor.row());
      const bool repeat = k > 0 && cursor.begin() < start + k && indices[k] == indices[k - 1];
      sum.self_loops += u == v;
      sum.duplicates += repeat;
      if (!repeat) sum.skew += hash_edge(u, v) - hash_edge(v, u);
      if (nodes == 0 || labels[u] < 0 || labels[v] < 0) continue;
      ++sum.labelled;
      sum.same_label += labels[u] == labels[v];
    }
    parts[static_cast<std::size_t>(part)] = sum;
  });
  EdgeCounts total;
  for (const EdgeCounts& sum : parts) {
    total.self_loops += sum.self_loops;
    total.duplicates += sum.duplicates;
    total.labelled += sum.labelled;
    total.same_label += sum.same_label;
    total.skew += sum.skew;
  }
  return total;
}

#define FOREGATHER_CHECK(Id)                                                               \
  template std::int64_t check_ids<Id>(std::span<const Id>, std::int64_t, int);             \
  template std::int64_t check_rows<Id>(std::span<const std::int64_t>, std::span<const Id>, \
                                       std::int64_t);                                      \
  template void count_ids<Id>(std::span<const Id>, std::span<std::int64_t>);               \
  template EdgeCounts count_edges<Id>(std::span<const std::int64_t>, std::int64_t,         \
                                      std::span<const Id>, std::int64_t, std::int64_t,     \
                                      std::span<const std::int64_t>, int);
FOREGATHER_CHECK(std::uint32_t)
FOREGATHER_CHECK(std::int64_t)
#undef FOREGATHER_CHECK

}  // namespace foregather
