// PlanMaker: makes the plans of a Planner, with words of one width; see planner.hpp.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plan/bounds/running_bound.hpp"
#include "plan/buckets.hpp"
#include "plan/free_riders.hpp"
#include "plan/miss.hpp"
#include "plan/planner.hpp"
#include "plan/row_table.hpp"
#include "plan/row_word.hpp"
#include "plan/step_copies.hpp"

namespace foregather {

/// What a Planner asks of the maker of its plans; words of one width are behind it.
class PlanMaker {
 public:
  PlanMaker() = default;
  PlanMaker(const PlanMaker&) = delete;
  PlanMaker& operator=(const PlanMaker&) = delete;
  virtual ~PlanMaker() = default;

  virtual Plan plan(Batches batches, Batches ahead, bool fill) = 0;
  virtual void set_popularity(std::span<const std::uint16_t> popularity) = 0;
  virtual void clear() = 0;
  virtual void begin_bound() = 0;
  virtual std::span<const std::uint32_t> cached() const = 0;
};

template <typename Word>
class PlanMakerOf final : public PlanMaker {
 public:
  /// @param slots at most as many as there are rows
  PlanMakerOf(const Geometry& geometry, std::int64_t given_slots, std::int64_t slots,
              const PlannerOptions& options)
      : geometry_(geometry),
        given_slots_(given_slots),
        slots_(slots),
        options_(options),
        extents_(geometry, {options.merge_gap, options.max_request, options.single}),
        table_(static_cast<std::size_t>(geometry.num_rows), static_cast<std::size_t>(slots)) {
    writer_.reserve_exactly(static_cast<std::size_t>(slots_));
    if (options.bounds) bound_ = std::make_unique<BlockBound>(geometry, slots_);
    begin_bound();
  }

  Plan plan(Batches batches, Batches ahead, bool fill) override {
    begin_horizon(batches.size() + ahead.size());
    look(ahead, batches.size(), false);
    look(batches, 0, true);
    try {
      return forward(batches, fill);
    } catch (...) {
      clear();  // the plan is lost, so what it would have left in the cache is unknown
      throw;
    }
  }

  void set_popularity(std::span<const std::uint16_t> popularity) override {
    table_.set_popularity(popularity);
  }

  void clear() override {
    for (std::uint32_t slot = 0; slot < used_; ++slot) {
      if (rows()[slot] != kNone) table_.release(slot);
    }
    used_ = 0;
    begin_bound();
  }

  /// Block bounds are those of all plans from now on, which begin with what is cached now.
  void begin_bound() override {
    if (bound_) bound_->begin(rows());
  }

  std::span<const std::uint32_t> cached() const override { return rows(); }

 private:
  // what a step can add to them still has a number of 32 bits
  static constexpr std::size_t kMostCopies = std::size_t{1} << 31;
  static constexpr std::size_t kFar = 24;  // accesses between prefetching a table line and using it
  static constexpr std::int64_t kLines = 4;  // lines of a block that are prefetched
  static constexpr std::int64_t kLine = 64 / sizeof(typename Word::Entry);  // entries in one
  static constexpr std::size_t kSoon =
      2;  // misses between prefetching a block's lines and using them
  static constexpr std::size_t kNear = 12;  // misses between prefetching a row's line and using it
  static constexpr std::uint32_t kPeek =
      8;  // evictions between prefetching a row's line and using it

  std::span<const std::uint32_t> rows() const { return table_.rows(); }

  void begin_horizon(std::size_t horizon) {
    // Step numbers continue from plan to plan, so that what earlier plans left in the table is
    // known to be old. They start again when they run out; only then is the table walked.
    base_ += horizon_;
    if (base_ + horizon > Word::kNever) {
      table_.forget_steps();
      base_ = 0;
    }
    horizon_ = static_cast<std::uint32_t>(horizon);
  }

  // From the last batch to the first: each access learns the next use of its row.
  void look(Batches batches, std::size_t first, bool remember) {
    const auto num_rows = static_cast<std::uint32_t>(geometry_.num_rows);
    std::size_t at = remember ? count_rows(batches) : 0;
    if (remember) next_.reserve(at);
    for (std::size_t t = batches.size(); t-- > 0;) {
      const std::span<const std::uint32_t> batch = batches[t];
      const std::uint32_t now = base_ + static_cast<std::uint32_t>(first + t);
      at -= remember ? batch.size() : 0;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        if (i + kFar < batch.size() && batch[i + kFar] < num_rows) {
          __builtin_prefetch(table_.address(batch[i + kFar]), 1);
        }
        const std::uint32_t row = batch[i];
        if (row >= num_rows) outside(first + t, row);
        auto& word = table_.word(row);
        const std::uint32_t next = word >> kRankBits;
        if (next == now) repeated(first + t, row);
        if (remember) next_[at + i] = next;
        word = word_of(now, word);
      }
    }
  }

  /// The word of a row with the next use at a step, and the rank of another of its words.
  static typename Word::Entry word_of(std::uint32_t step, std::uint32_t rank) {
    return static_cast<typename Word::Entry>(step << kRankBits | (rank & kRankMask));
  }

  [[noreturn]] void outside(std::size_t t, std::uint32_t row) const {
    throw InputError("batch " + std::to_string(t) + " asks for row " + std::to_string(row) +
                     "; expected rows 0 to " + std::to_string(geometry_.num_rows - 1));
  }
  [[noreturn]] static void repeated(std::size_t t, std::uint32_t row) {
    throw InputError("batch " + std::to_string(t) + " asks for row " + std::to_string(row) +
                     " twice; expected distinct rows");
  }

  std::size_t bucket(std::uint32_t word) const { return word_bucket(word, base_, horizon_); }

  Plan forward(Batches batches, bool fill) {
    Plan out = empty_plan(geometry_, given_slots_, count_rows(batches));
    Sweep sweep(batches.size(), slots_);
    begin_bulk(batches, out, sweep);
    std::size_t at = 0;
    for (std::size_t t = 0; t < batches.size(); ++t) {
      const std::span<const std::uint32_t> batch = batches[t];
      misses_.clear();
      if (fill && t == 0) add_fill(batches);
      find(batch, t, at, out);
      if (bound_) bound_step(batch, at, batches.size(), out, sweep);
      at += batch.size();
      sort_misses(misses_, scratch_, geometry_.num_rows);
      read(out);
      out.num_rows.push_back(static_cast<std::int64_t>(batch.size()));
      out.hit_ptr.push_back(static_cast<std::int64_t>(out.hit_slot.size()));
      out.request_ptr.push_back(static_cast<std::int64_t>(out.request_offset.size()));
    }
    return out;
  }

  // Puts the rows of the cache into buckets by their next use in this horizon.
  void begin_bulk(Batches batches, Plan& out, Sweep& sweep) {
    buckets_.reset(horizon_ + kRanks, rows().size());
    std::fill_n(writer_.data(), rows().size(), 0);
    dropped_ = 0;
    for (std::uint32_t slot = 0; slot < used_; ++slot) {
      const std::size_t place = bucket(table_.slot_word(slot));
      buckets_.push(place, slot);
      if (place < batches.size()) sweep.carry(place);
    }
    if (bound_) out.row_bound = out.block_bound = 0;
  }

  void bound_step(std::span<const std::uint32_t> batch, std::size_t at, std::size_t steps,
                  Plan& out, Sweep& sweep) {
    out.block_bound += bound_->step(batch);
    out.row_bound += static_cast<std::int64_t>(batch.size()) - sweep.begin();
    for (std::size_t i = at; i < at + batch.size(); ++i) {
      const std::uint32_t wait = next_[i] - base_;
      if (wait < steps) sweep.add(wait);
    }
    sweep.end();
  }

  // The rows that Ginex reads before its first batch: the first distinct ones it meets.
  void add_fill(Batches batches) {
    std::int64_t left = slots_;
    for (std::size_t t = 0; t < batches.size() && left > 0; ++t) {
      for (std::uint32_t row : batches[t]) {
        if (left == 0) break;
        if ((table_.word(row) >> kRankBits) - base_ != t) continue;  // met before
        --left;
        if (t > 0 && table_.entry(row) < Word::kHeld) misses_.push_back(make_miss(row, kNone));
      }
    }
  }

  // Splits a batch into hits and misses, and moves every row on to its next use.
  void find(std::span<const std::uint32_t> batch, std::size_t t, std::size_t at, Plan& out) {
    buckets_.drop(t);  // these rows are the hits; they get a new place below
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (i + kFar < batch.size()) __builtin_prefetch(table_.address(batch[i + kFar]), 1);
      const std::uint32_t row = batch[i];
      if (table_.entry(row) < Word::kHeld) {
        move_on(table_.word(row), next_[at + i]);
        misses_.push_back(make_miss(row, static_cast<std::uint32_t>(i)));
        continue;
      }
      const std::uint32_t slot = table_.slot(row);
      auto& word = table_.slot_word(slot);
      move_on(word, next_[at + i]);
      out.hit_slot.push_back(slot);
      out.hit_position.push_back(static_cast<std::uint32_t>(i));
      buckets_.push(bucket(word), slot);
    }
  }

  /// A row is used: its word is that of the next use, and the row is more popular.
  static void move_on(typename Word::Entry& word, std::uint32_t next) {
    const std::uint32_t rank = word & kRankMask;
    word = word_of(next, rank - (rank > 0));
  }

  void read(Plan& out) {
    const std::size_t first_request = out.request_offset.size();
    first_copy_ = out.copy_row.size();
    if (first_copy_ + dropped_ > kMostCopies) {
      throw InputError("a bulk of more than 2^31 rows to read was given; expected a smaller one");
    }
    std::int64_t visited = 0;
    extents_.for_requests(misses_,
                          [&](std::int64_t lo, std::int64_t hi, std::span<const Miss> part) {
                            out.request_offset.push_back(lo);
                            out.request_length.push_back(hi - lo);
                            if (options_.riders && !options_.single) {
                              visit_all(lo, hi, part, visited, out);
                            } else {
                              for (const Miss& miss : part) take(miss, out);
                            }
                            out.copy_ptr.push_back(static_cast<std::int64_t>(out.copy_row.size()));
                          });
    dropped_ += drop_lost_riders(out, first_request, first_copy_);
  }

  // All rows of a request, in order: the requested ones and those between them.
  void visit_all(std::int64_t lo, std::int64_t hi, std::span<const Miss> part,
                 std::int64_t& visited, Plan& out) {
    std::int64_t first, last;
    extents_.rows_inside(lo, hi, first, last);
    std::int64_t row = std::max(first, visited);
    for (const Miss& miss : part) {
      ride(row, miss_row(miss), out);
      take(miss, out);
      row = static_cast<std::int64_t>(miss_row(miss)) + 1;
    }
    ride(row, last, out);
    const Miss* soon = part.data() + part.size() + kSoon;
    if (soon < misses_.data() + misses_.size()) expect(*soon);
    visited = std::max(visited, last);
  }

  void take(const Miss& miss, Plan& out) {
    if (&miss + kNear < misses_.data() + misses_.size()) {
      __builtin_prefetch(table_.address(miss_row((&miss)[kNear])), 1);
    }
    const std::uint32_t row = miss_row(miss);
    add_copy(row, miss_position(miss), out);
    if (bucket(table_.entry(row)) < limit()) admit(row, out);  // it was missed: its entry is a word
  }

  // Rows of a request that nobody asked for stay where they are used soon enough.
  void ride(std::int64_t row, std::int64_t end, Plan& out) {
    const auto keep = [&](std::uint32_t rider, std::uint32_t word) {
      const std::size_t place = bucket(word);  // steps of earlier plans are only seen here
      if (place >= limit() || place >= horizon_ + kRankMask) return false;
      add_copy(rider, kNone, out);
      admit(rider, out);
      return true;
    };
    offer_riders(table_.address(0), row, end, [this] { return worst_word(); }, keep);
  }

  /// Riders with words from here on are not worth keeping; some below are not either.
  std::uint32_t worst_word() const {
    if (used_ < rows().size()) return Word::kUnseen;
    return bucket_word<Word>(limit(), base_, horizon_);
  }

  // The table lines of a block that will be read soon.
  void expect(Miss miss) const {
    std::int64_t first, last;
    const auto lo =
        static_cast<std::int64_t>(extents_.block(miss_row(miss))) * geometry_.block_bytes;
    extents_.rows_inside(lo, lo + geometry_.block_bytes, first, last);
    last = std::min(last, first + kLines * kLine);
    for (; first < last; first += kLine) {
      __builtin_prefetch(table_.address(static_cast<std::size_t>(first)));
    }
  }

  /// Rows in buckets below this are worth keeping now.
  std::size_t limit() const {
    if (used_ < rows().size()) return horizon_ + kRanks;
    return static_cast<std::size_t>(std::max<std::int64_t>(buckets_.highest(), 0));
  }

  // The row that was copied last gets a slot; an evicted row loses the copy made in this step.
  void admit(std::uint32_t row, Plan& out) {
    std::uint32_t slot;
    if (used_ < rows().size()) {
      slot = used_++;
    } else {
      const std::uint32_t later = buckets_.peek(2 * kPeek);
      __builtin_prefetch(&rows()[later], 1);
      __builtin_prefetch(&writer_[later], 1);
      __builtin_prefetch(table_.address(rows()[buckets_.peek(kPeek)]), 1);
      slot = buckets_.pop();
      table_.release(slot);
      if (writer_[slot] > first_copy_ + dropped_) {
        out.copy_slot[writer_[slot] - dropped_ - 1] = kNone;
      }
    }
    const std::uint32_t word = table_.hold(row, slot);
    writer_[slot] = static_cast<std::uint32_t>(out.copy_slot.size() + dropped_);
    out.copy_slot.back() = slot;
    buckets_.push(bucket(word), slot);
  }

  Geometry geometry_;
  std::int64_t given_slots_, slots_;
  PlannerOptions options_;
  Extents extents_;
  RowTable<Word> table_;
  std::uint32_t used_ = 0;        ///< slots with a row: the first ones
  Buffer<std::uint32_t> next_;    ///< by access of the bulk: step of the next use
  Buffer<std::uint32_t> writer_;  ///< by slot: 1 + the number of the copy that filled it, or 0;
                                  ///< copies are numbered in this plan, dropped ones included
  std::size_t first_copy_ = 0;    ///< of the step
  std::size_t dropped_ = 0;       ///< copies of this plan that were taken back
  Buckets buckets_;
  std::vector<Miss> misses_, scratch_;
  std::unique_ptr<BlockBound> bound_;
  std::uint32_t base_ = 0;     ///< number of the first step of the horizon
  std::uint32_t horizon_ = 0;  ///< steps of it
};

}  // namespace foregather
