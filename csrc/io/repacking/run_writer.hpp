// Run writer: the runs of a repacked bulk, each written from its front to its end. Private.
//
// Runs lie densely in the scratch file, so a page may hold the end of one run and the beginning of
// the next ones. Such pages (at most one more than there are runs) stay in memory until the end.
// All other pages of a run go through a buffer of its own, and every page is written exactly once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "io/files/scratch_file.hpp"
#include "io/repacking/repack.hpp"
#include "parallel/pages.hpp"

namespace foregather {

class RunWriter {
 public:
  /// @param memory bytes for all buffers; at least bytes_for(runs)
  RunWriter(ScratchFile& file, const RepackPlan& plan, std::int64_t memory)
      : file_(file), row_bytes_(plan.source.row_bytes), run_ptr_(plan.run_ptr) {
    const auto count = static_cast<std::int64_t>(run_ptr_.size()) - 1;
    piece_ = std::clamp((memory / std::max<std::int64_t>(count, 1) - kPage) / kPage, kLeast, kMost);
    piece_ *= kPage;
    for (std::int64_t t = 0; t < count; ++t) {
      add_run(t);
      // Runs fill at about the same pace. Were they written at the same time, reading would stop
      // for all of them; so the first piece of each is shorter, and they take turns.
      runs_.back().limit = std::max(kPage, piece_ * (t + 1) / count / kPage * kPage);
    }
    buffers_ = std::make_unique<Pages>(static_cast<std::size_t>(buffered_ * piece_));
    edges_ = std::make_unique<Pages>(edge_page_.size() * kPage);
  }

  /// The least memory for this many runs.
  static std::int64_t bytes_for(std::int64_t runs) { return (runs + 1) * (kLeast + 1) * kPage; }

  /// The row of index `index`; those of a run come in ascending order, without gaps.
  void put(std::uint32_t index, const std::byte* row) {
    const auto after = std::upper_bound(run_ptr_.begin(), run_ptr_.end(), index);
    Run& run = runs_[static_cast<std::size_t>(after - run_ptr_.begin() - 1)];
    if (run.at != index * row_bytes_) {
      throw InputError("the moves of a run do not follow each other; make the repack plan again");
    }
    for (std::int64_t left = row_bytes_; left > 0;) {
      const std::int64_t moved = put_part(run, row, left);
      run.at += moved, row += moved, left -= moved;
    }
  }

  /// Writes what is left in the buffers.
  void finish() {
    for (Run& run : runs_) flush(run, std::min(run.at, run.inner_end));
    for (std::size_t first = 0; first < edge_page_.size();) {
      std::size_t last = first + 1;  // neighbours go in one write
      while (last < edge_page_.size() && edge_page_[last] == edge_page_[last - 1] + 1) ++last;
      write(edge_page_[first] * kPage, edges_->data() + first * kPage, (last - first) * kPage);
      first = last;
    }
  }

  std::int64_t writes() const { return writes_; }
  std::int64_t written() const { return written_; }

 private:
  static constexpr std::int64_t kLeast = 2, kMost = 256;  // pages of a buffer

  struct Run {
    std::int64_t at;                      ///< byte of the file that comes next
    std::int64_t inner_begin, inner_end;  ///< its whole pages
    std::int64_t flushed;                 ///< of those, written up to here
    std::int64_t limit;                   ///< bytes in the buffer at which it is written
    std::int64_t buffer;                  ///< number of its buffer
    std::size_t edge_before, edge_after;  ///< number of the pages it shares
  };

  void add_run(std::int64_t t) {
    const auto k = static_cast<std::size_t>(t);
    const std::int64_t begin = run_ptr_[k] * row_bytes_, end = run_ptr_[k + 1] * row_bytes_;
    Run run{};
    run.at = begin;
    run.edge_before = edge(begin);
    run.edge_after = edge(end);
    run.inner_begin = (begin + kPage - 1) / kPage * kPage;
    run.inner_end = std::max(end / kPage * kPage, run.inner_begin);
    run.flushed = run.inner_begin;
    if (run.inner_end > run.inner_begin) run.buffer = buffered_++;
    runs_.push_back(run);
  }

  // The number of the shared page that holds byte `at`, where one run ends and another may begin.
  std::size_t edge(std::int64_t at) {
    const std::int64_t page = at / kPage;
    if (at % kPage != 0 && (edge_page_.empty() || edge_page_.back() < page)) {
      edge_page_.push_back(page);
    }
    return edge_page_.empty() ? 0 : edge_page_.size() - 1;
  }

  std::int64_t put_part(Run& run, const std::byte* from, std::int64_t left) {
    const std::int64_t inside = run.at % kPage;
    if (run.at < run.inner_begin || run.at >= run.inner_end) {
      const std::size_t edge = run.at < run.inner_begin ? run.edge_before : run.edge_after;
      const std::int64_t count = std::min(left, kPage - inside);
      std::memcpy(edges_->data() + static_cast<std::int64_t>(edge) * kPage + inside, from,
                  static_cast<std::size_t>(count));
      return count;
    }
    const std::int64_t used = run.at - run.flushed;
    const std::int64_t count = std::min({left, run.inner_end - run.at, run.limit - used});
    std::memcpy(buffers_->data() + run.buffer * piece_ + used, from,
                static_cast<std::size_t>(count));
    if (used + count == run.limit) flush(run, run.at + count);
    return count;
  }

  void flush(Run& run, std::int64_t end) {
    if (end <= run.flushed) return;
    write(run.flushed, buffers_->data() + run.buffer * piece_,
          static_cast<std::size_t>(end - run.flushed));
    run.flushed = end;
    run.limit = piece_;
  }

  void write(std::int64_t offset, const std::byte* from, std::size_t bytes) {
    file_.write(offset, {from, bytes});
    ++writes_;
    written_ += static_cast<std::int64_t>(bytes);
  }

  ScratchFile& file_;
  const std::int64_t row_bytes_;
  const std::vector<std::int64_t>& run_ptr_;
  std::int64_t piece_ = 0;     ///< bytes of a buffer
  std::int64_t buffered_ = 0;  ///< runs that have one
  std::vector<Run> runs_;
  std::vector<std::int64_t> edge_page_;  ///< ascending
  std::unique_ptr<Pages> buffers_, edges_;
  std::int64_t writes_ = 0, written_ = 0;
};

}  // namespace foregather
