// RowGaps: the positions that one minibatch leaves out of rows that lie on disk. Private to the
// disk sampler.
//
// As ExcludedRows (excluded.hpp), without the rows themselves: positions were looked for before
// (row_search.hpp), and what was placed is a short list by local id, not a number for each row of
// the layer, as all minibatches of a bulk are there at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sampling/numbering/local_ids.hpp"

namespace foregather {

class RowGaps {
 public:
  RowGaps() = default;
  /// Of (target, edge), in any order and as often as they like.
  explicit RowGaps(std::vector<std::pair<std::int64_t, std::int64_t>> entries) {
    std::sort(entries.begin(), entries.end());
    entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
    for (const auto& [target, edge] : entries) {
      if (rows_.empty() || rows_.back().target != target) {
        waiting_.push_back(static_cast<std::uint32_t>(rows_.size()));
        rows_.push_back({target, edges_.size(), 0});
      }
      edges_.push_back(edge);
      rows_.back().last = edges_.size();
    }
  }

  /// Finds the rows among the local ids [first, last) that `ids` knows, for the next layer.
  template <typename Id>
  void place(std::int64_t first, std::int64_t last, const LocalIds<Id>& ids) {
    placed_.clear();
    std::size_t kept = 0;
    for (const std::uint32_t row : waiting_) {
      const std::uint32_t local = ids.find(static_cast<Id>(rows_[row].target));
      const auto at = static_cast<std::int64_t>(local);
      const bool met = local != LocalIds<Id>::kNone;
      if (met && at < first) continue;  // sampled, and not sampled again
      waiting_[kept++] = row;
      if (met && at < last) placed_.emplace_back(at, row);
    }
    waiting_.resize(kept);
    std::sort(placed_.begin(), placed_.end());
  }

  /// Goes through the rows of a layer once, in ascending order.
  class Walk {
   public:
    explicit Walk(const RowGaps& gaps) : gaps_(gaps) {}
    /// The positions that are left out of the row with this local id, ascending.
    std::span<const std::int64_t> of(std::int64_t local) {
      const auto& placed = gaps_.placed_;
      if (next_ == placed.size() || placed[next_].first != local) return {};
      const Row& row = gaps_.rows_[placed[next_++].second];
      return {gaps_.edges_.data() + row.first, gaps_.edges_.data() + row.last};
    }

   private:
    const RowGaps& gaps_;
    std::size_t next_ = 0;
  };
  Walk begin() const { return Walk(*this); }

 private:
  struct Row {
    std::int64_t target;
    std::size_t first, last;  ///< its edges
  };
  std::vector<Row> rows_;
  std::vector<std::int64_t> edges_;
  std::vector<std::uint32_t> waiting_;                          ///< rows that may still be met
  std::vector<std::pair<std::int64_t, std::uint32_t>> placed_;  ///< local id and row, ascending
};

}  // namespace foregather
