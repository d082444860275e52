#include "graph/order/communities.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/random.hpp"
#include "parallel/pool.hpp"

namespace foregather {
namespace {

constexpr std::uint32_t kStays = 0xFFFFFFFFu;  // no label: the node does not move
constexpr std::int64_t kGrain = 256;           // rows worth a thread

// Counts labels of one row: a small open table that is emptied by the list of its used places.
class Votes {
 public:
  Votes() : key_(kSize), count_(kSize, 0) { used_.reserve(Communities::kMostSources); }

  void add(std::uint32_t label) {
    std::uint32_t at = static_cast<std::uint32_t>(mix64(label + kGolden)) & (kSize - 1);
    while (count_[at] != 0 && key_[at] != label) at = (at + 1) & (kSize - 1);
    if (count_[at]++ == 0) {
      key_[at] = label;
      used_.push_back(at);
    }
  }

  /// The label with most votes, of equal ones that with the smallest hash; the node's own label
  /// wins every tie. Empties the table.
  std::uint32_t winner(std::uint32_t own, std::uint64_t salt) {
    std::uint32_t best = kStays, most = 0;
    std::uint64_t rank = 0;
    for (const std::uint32_t at : used_) {
      const std::uint64_t mine = key_[at] == own ? 0 : draw(salt, key_[at]) | 1;
      if (count_[at] > most || (count_[at] == most && mine < rank)) {
        best = key_[at], most = count_[at], rank = mine;
      }
      count_[at] = 0;
    }
    used_.clear();
    return best == own ? kStays : best;
  }

 private:
  static constexpr std::uint32_t kSize = 2048;  // four times the votes of a row
  std::vector<std::uint32_t> key_, count_, used_;
};

}  // namespace

Communities::Communities(std::int64_t num_nodes)
    : block_(std::clamp<std::int64_t>(num_nodes / 64, 64, 1 << 16)) {
  if (num_nodes < 0 || num_nodes > kMaxNarrowVertices) {
    throw InputError("communities of " + std::to_string(num_nodes) +
                     " nodes were asked for, expected at most 2^32 - 1");
  }
  label_.assign(static_cast<std::size_t>(num_nodes), 0);  // all together: nothing is above
  above_.assign(label_.size(), 0);
  size_.assign(label_.size(), 1);
  sourceless_.assign(label_.size(), false);
  wish_.resize(static_cast<std::size_t>(block_));
}

void Communities::begin_level(std::int64_t cap) {
  if (cap < 1) throw InputError("a level has room for no node; give a cap of at least 1");
  cap_ = cap;
  std::swap(above_, label_);
  std::iota(label_.begin(), label_.end(), 0u);
  std::fill(size_.begin(), size_.end(), 1u);
  next_row_ = 0;
}

bool Communities::move(std::uint32_t node, std::uint32_t to) {
  if (size_[to] >= cap_) return false;
  --size_[label_[node]];
  ++size_[to];
  label_[node] = to;
  return true;
}

template <typename Id>
std::int64_t Communities::feed(std::int64_t first_row, std::span<const std::int64_t> indptr,
                               std::span<const Id> indices, int threads) {
  const auto rows = static_cast<std::int64_t>(indptr.size()) - 1;
  if (rows < 0 || (first_row != 0 && first_row != next_row_) || first_row % block_ != 0 ||
      first_row + rows > static_cast<std::int64_t>(label_.size())) {
    throw InputError("rows " + std::to_string(first_row) + " on were fed, expected row " +
                     std::to_string(next_row_) + " on; feed every row once, in order");
  }
  if (indptr.back() - indptr.front() != static_cast<std::int64_t>(indices.size())) {
    throw InputError("indptr does not describe indices");
  }
  const auto nodes = static_cast<std::uint64_t>(label_.size());
  for (const Id id : indices) {
    if (static_cast<std::uint64_t>(id) >= nodes) {
      throw InputError("the topology names node " + std::to_string(id) + ", expected below " +
                       std::to_string(nodes));
    }
  }
  if (first_row == 0) salt_ = derive(salt_, 1);
  std::int64_t moved = 0;
  for (std::int64_t done = 0; done < rows; done += block_) {
    const std::int64_t count = std::min(block_, rows - done);
    moved += feed_block<Id>(
        first_row + done, indptr.subspan(done, count + 1),
        indices.subspan(indptr[done] - indptr[0], indptr[done + count] - indptr[done]), threads);
  }
  next_row_ = first_row + rows;
  return moved;
}

template <typename Id>
std::int64_t Communities::feed_block(std::int64_t first_row, std::span<const std::int64_t> indptr,
                                     std::span<const Id> indices, int threads) {
  const auto rows = static_cast<std::int64_t>(indptr.size()) - 1;
  if (threads <= 0) threads = default_threads();
  std::vector<Votes> votes(static_cast<std::size_t>(threads));
  parallel_blocks(rows, threads, kGrain, [&](std::int64_t begin, std::int64_t end, int worker) {
    Votes& mine = votes[worker];
    for (std::int64_t row = begin; row < end; ++row) {
      const auto node = static_cast<std::uint32_t>(first_row + row);
      const std::int64_t from = indptr[row] - indptr[0], degree = indptr[row + 1] - indptr[row];
      const std::int64_t step = (degree + kMostSources - 1) / kMostSources;
      for (std::int64_t k = 0; k < degree; k += step) {
        const auto source = static_cast<std::uint32_t>(indices[from + k]);
        if (source != node && above_[source] == above_[node]) mine.add(label_[source]);
      }
      wish_[row] = mine.winner(label_[node], salt_);
    }
  });
  std::int64_t moved = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto node = static_cast<std::uint32_t>(first_row + row);
    if (wish_[row] != kStays) moved += move(node, wish_[row]);
    sourceless_[node] = indptr[row + 1] == indptr[row];
    // who has no sources follows a target while alone; before its row was fed that is not known
    for (std::int64_t k = indptr[row] - indptr[0]; k < indptr[row + 1] - indptr[0]; ++k) {
      const auto source = static_cast<std::uint32_t>(indices[k]);
      if (sourceless_[source] && size_[label_[source]] == 1 && above_[source] == above_[node]) {
        moved += move(source, label_[node]);
      }
    }
  }
  return moved;
}

template <typename Id>
void add_visits(std::span<const std::int64_t> indptr, std::span<const Id> indices,
                std::int64_t fanout, std::span<std::uint64_t> score) {
  if (indptr.empty() || fanout < 1 ||
      indptr.back() - indptr.front() != static_cast<std::int64_t>(indices.size())) {
    throw InputError("indptr does not describe indices, or the fan-out is below 1");
  }
  for (std::size_t row = 0; row + 1 < indptr.size(); ++row) {
    const std::int64_t degree = indptr[row + 1] - indptr[row];
    if (degree == 0) continue;
    const auto share = static_cast<std::uint64_t>((std::min(fanout, degree) << 20) / degree);
    for (std::int64_t k = indptr[row] - indptr[0]; k < indptr[row + 1] - indptr[0]; ++k) {
      if (static_cast<std::uint64_t>(indices[k]) >= score.size()) {
        throw InputError("the topology names node " + std::to_string(indices[k]) +
                         ", expected below " + std::to_string(score.size()));
      }
      score[static_cast<std::size_t>(indices[k])] += share;
    }
  }
}

#define FOREGATHER_ORDER(Id)                                                                     \
  template std::int64_t Communities::feed<Id>(std::int64_t, std::span<const std::int64_t>,       \
                                              std::span<const Id>, int);                         \
  template void add_visits<Id>(std::span<const std::int64_t>, std::span<const Id>, std::int64_t, \
                               std::span<std::uint64_t>);
FOREGATHER_ORDER(std::uint32_t)
FOREGATHER_ORDER(std::int64_t)
#undef FOREGATHER_ORDER

}  // namespace foregather
