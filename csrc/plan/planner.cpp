#include "plan/planner.hpp"

#include <algorithm>
#include <string>

#include "plan/bounds/running_bound.hpp"
#include "plan/buckets.hpp"
#include "plan/free_riders.hpp"
#include "plan/miss.hpp"
#include "plan/row_table.hpp"
#include "plan/row_word.hpp"
#include "plan/step_copies.hpp"

namespace foregather {
namespace {

constexpr std::size_t kFar = 24;    // accesses between prefetching a table line and using it
constexpr std::int64_t kLine = 16;  // entries in a cache line
constexpr std::int64_t kLines = 4;  // lines of a block that are prefetched
constexpr std::size_t kSoon = 2;    // misses between prefetching a block's lines and using them
constexpr std::size_t kNear = 12;   // misses between prefetching a row's line and using it
constexpr std::uint32_t kPeek = 8;  // evictions between prefetching a row's line and using it

}  // namespace

class Planner::Work {
 public:
  Work(const Geometry& geometry, std::int64_t num_slots, const PlannerOptions& options)
      : geometry_(geometry),
        slots_(num_slots),
        options_(options),
        extents_(geometry, {options.merge_gap, options.max_request, options.single}) {
    check_geometry(geometry);
    if (num_slots < 0 || num_slots >= static_cast<std::int64_t>(kNone)) {
      throw InputError(std::to_string(num_slots) + " slots were given; expected 0 to 2^32 - 2");
    }
    if (options.merge_gap < 0 || options.max_request < geometry.block_bytes ||
        options.max_request % geometry.block_bytes != 0) {
      throw InputError("requests of at most " + std::to_string(options.max_request) +
                       " bytes with gaps of " + std::to_string(options.merge_gap) +
                       " were given; expected whole blocks of " +
                       std::to_string(geometry.block_bytes) + " bytes and a gap of 0 or more");
    }
    // more could never be filled, or told from a row's word
    slots_ = std::min({num_slots, geometry.num_rows, std::int64_t{RowTable::kHeld}});
    given_slots_ = num_slots;
    table_ = std::make_unique<RowTable>(static_cast<std::size_t>(geometry.num_rows),
                                        static_cast<std::size_t>(slots_));
    rows_.reserve_exactly(static_cast<std::size_t>(slots_));
    writer_.reserve_exactly(static_cast<std::size_t>(slots_));
    row_of_ = {rows_.data(), static_cast<std::size_t>(slots_)};
    if (options.bounds) bound_ = std::make_unique<BlockBound>(geometry, slots_);
    std::fill(row_of_.begin(), row_of_.end(), kNone);
    free_.reserve(row_of_.size());
    clear();
  }

  Plan plan(Batches batches, Batches ahead, bool fill) {
    const std::size_t horizon = batches.size() + ahead.size();
    if (horizon >= kNever - 1) {
      throw InputError(std::to_string(horizon) + " batches were given; expected fewer than " +
                       std::to_string(kNever - 1) + " in a bulk and its look-ahead");
    }
    begin_horizon(horizon);
    look(ahead, batches.size(), false);
    look(batches, 0, true);
    try {
      return forward(batches, fill);
    } catch (...) {
      clear();  // the plan is lost, so what it would have left in the cache is unknown
      throw;
    }
  }

  void set_popularity(std::span<const std::uint16_t> popularity) {
    if (static_cast<std::int64_t>(popularity.size()) != geometry_.num_rows) {
      throw InputError("popularity has " + std::to_string(popularity.size()) +
                       " entries; expected one for each of " + std::to_string(geometry_.num_rows) +
                       " rows");
    }
    table_->set_popularity(popularity);
  }

  void clear() {
    for (std::size_t slot = 0; slot < row_of_.size(); ++slot) {
      if (row_of_[slot] != kNone) table_->release(row_of_[slot], slot);
      row_of_[slot] = kNone;
    }
    free_.clear();
    for (std::size_t slot = row_of_.size(); slot-- > 0;) {
      free_.push_back(static_cast<std::uint32_t>(slot));
    }
    begin_bound();
  }

  /// Block bounds are those of all plans from now on, which begin with what is cached now.
  void begin_bound() {
    if (bound_) bound_->begin(row_of_);
  }

  Geometry geometry_;
  std::int64_t slots_;
  std::int64_t given_slots_ = 0;
  PlannerOptions options_;
  std::span<std::uint32_t> row_of_;  ///< by slot

 private:
  void begin_horizon(std::size_t horizon) {
    // Step numbers continue from plan to plan, so that what earlier plans left in the table is
    // known to be old. They start again when they run out; only then is the table walked.
    base_ += horizon_;
    if (base_ + horizon >= kNever) {
      table_->forget_steps();
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
          __builtin_prefetch(table_->address(batch[i + kFar]), 1);
        }
        const std::uint32_t row = batch[i];
        if (row >= num_rows) outside(first + t, row);
        std::uint32_t& word = table_->word(row);
        if (word >> kRankBits == now) repeated(first + t, row);
        if (remember) next_[at + i] = word >> kRankBits;
        word = now << kRankBits | (word & kRankMask);
      }
    }
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
    buckets_.reset(horizon_ + kRanks, row_of_.size());
    std::fill_n(writer_.data(), row_of_.size(), 0);
    dropped_ = 0;
    for (std::size_t slot = 0; slot < row_of_.size(); ++slot) {
      if (row_of_[slot] == kNone) continue;
      const std::size_t place = bucket(table_->slot_word(slot));
      buckets_.push(place, static_cast<std::uint32_t>(slot));
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
        if ((table_->word(row) >> kRankBits) - base_ != t) continue;  // met before
        --left;
        if (t > 0 && table_->entry(row) < RowTable::kHeld) misses_.push_back(make_miss(row, kNone));
      }
    }
  }

  // Splits a batch into hits and misses, and moves every row on to its next use.
  void find(std::span<const std::uint32_t> batch, std::size_t t, std::size_t at, Plan& out) {
    buckets_.drop(t);  // these rows are the hits; they get a new place below
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (i + kFar < batch.size()) __builtin_prefetch(table_->address(batch[i + kFar]), 1);
      const std::uint32_t row = batch[i];
      const std::uint32_t entry = table_->entry(row);
      std::uint32_t& word = table_->word(row);
      const std::uint32_t rank = word & kRankMask;
      word = next_[at + i] << kRankBits | (rank - (rank > 0));
      if (entry < RowTable::kHeld) {
        misses_.push_back(make_miss(row, static_cast<std::uint32_t>(i)));
        continue;
      }
      const std::uint32_t slot = entry - RowTable::kHeld;
      out.hit_slot.push_back(slot);
      out.hit_position.push_back(static_cast<std::uint32_t>(i));
      buckets_.push(bucket(word), slot);
    }
  }

  void read(Plan& out) {
    const std::size_t first_request = out.request_offset.size();
    first_copy_ = out.copy_row.size();
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
      __builtin_prefetch(table_->address(miss_row((&miss)[kNear])), 1);
    }
    const std::uint32_t row = miss_row(miss);
    add_copy(row, miss_position(miss), out);
    if (bucket(table_->entry(row)) < limit())
      admit(row, out);  // it was missed: its entry is a word
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
    offer_riders(table_->address(0), row, end, [this] { return worst_word(); }, keep);
  }

  /// Riders with words from here on are not worth keeping; some below are not either.
  std::uint32_t worst_word() const {
    if (!free_.empty()) return kUnseen;
    return bucket_word(limit(), base_, horizon_);
  }

  // The table lines of a block that will be read soon.
  void expect(Miss miss) const {
    std::int64_t first, last;
    const auto lo =
        static_cast<std::int64_t>(extents_.block(miss_row(miss))) * geometry_.block_bytes;
    extents_.rows_inside(lo, lo + geometry_.block_bytes, first, last);
    last = std::min(last, first + kLines * kLine);
    for (; first < last; first += kLine) {
      __builtin_prefetch(table_->address(static_cast<std::size_t>(first)));
    }
  }

  /// Rows in buckets below this are worth keeping now.
  std::size_t limit() const {
    if (!free_.empty()) return horizon_ + kRanks;
    return static_cast<std::size_t>(std::max<std::int64_t>(buckets_.highest(), 0));
  }

  // The row that was copied last gets a slot; an evicted row loses the copy made in this step.
  void admit(std::uint32_t row, Plan& out) {
    std::uint32_t slot;
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else {
      const std::uint32_t later = buckets_.peek(2 * kPeek);
      __builtin_prefetch(&row_of_[later], 1);
      __builtin_prefetch(&writer_[later], 1);
      __builtin_prefetch(table_->address(row_of_[buckets_.peek(kPeek)]), 1);
      slot = buckets_.pop();
      table_->release(row_of_[slot], slot);
      if (writer_[slot] > first_copy_ + dropped_) {
        out.copy_slot[writer_[slot] - dropped_ - 1] = kNone;
      }
    }
    const std::uint32_t word = table_->hold(row, slot);
    row_of_[slot] = row;
    writer_[slot] = out.copy_slot.size() + dropped_;
    out.copy_slot.back() = slot;
    buckets_.push(bucket(word), slot);
  }

  Extents extents_;
  std::unique_ptr<RowTable> table_;
  Buffer<std::uint32_t> next_;       ///< by access of the bulk: step of the next use
  std::vector<std::uint32_t> free_;  ///< slots without a row, the lowest last
  Buffer<std::uint32_t> rows_;       ///< what row_of_ shows
  Buffer<std::uint64_t> writer_;     ///< by slot: 1 + the number of the copy that filled it, or 0;
                                     ///< copies are numbered in this plan, dropped ones included
  std::size_t first_copy_ = 0;       ///< of the step
  std::size_t dropped_ = 0;          ///< copies of this plan that were taken back
  Buckets buckets_;
  std::vector<Miss> misses_, scratch_;
  std::unique_ptr<BlockBound> bound_;
  std::uint32_t base_ = 0;     ///< number of the first step of the horizon
  std::uint32_t horizon_ = 0;  ///< steps of it
};

Planner::Planner(const Geometry& geometry, std::int64_t num_slots, const PlannerOptions& options)
    : work_(std::make_unique<Work>(geometry, num_slots, options)) {}
Planner::~Planner() = default;

Plan Planner::plan(Batches batches, Batches ahead, bool fill) {
  return work_->plan(batches, ahead, fill);
}
void Planner::set_popularity(std::span<const std::uint16_t> popularity) {
  work_->set_popularity(popularity);
}
void Planner::clear() { work_->clear(); }
void Planner::begin_bound() { work_->begin_bound(); }
std::span<const std::uint32_t> Planner::cached() const { return work_->row_of_; }
const Geometry& Planner::geometry() const { return work_->geometry_; }
std::int64_t Planner::num_slots() const { return work_->given_slots_; }
const PlannerOptions& Planner::options() const { return work_->options_; }

std::int64_t Planner::bytes(const Geometry& geometry, std::int64_t num_slots, std::int64_t accesses,
                            std::int64_t steps) {
  check_geometry(geometry);
  const auto rows = static_cast<std::size_t>(geometry.num_rows);
  const auto slots = static_cast<std::size_t>(std::min(num_slots, geometry.num_rows));
  const auto used = static_cast<std::size_t>(accesses), batches = static_cast<std::size_t>(steps);
  using Words = Buffer<std::uint32_t>;
  std::size_t total = RowTable::bytes(rows, slots) + Words::bytes_for(slots) + 4 * slots +
                      Buffer<std::uint64_t>::bytes_for(slots);
  // next uses; the misses of one batch twice, in vectors that double; buckets, which grow by a
  // quarter, and their tree; the row bound's ends
  total += Words::bytes_for(used + used / 4) + used / std::max<std::size_t>(batches, 1) * 32;
  total += Words::bytes_for(Buckets::bytes(batches + kRanks, slots) / 4 * 5 / 4) + 17 * batches;
  // a reserve: where memory is divided, accesses are not known yet, and plans wait beside tables
  return static_cast<std::int64_t>(total) + BlockBound::bytes(geometry) + (8 << 20);
}

}  // namespace foregather
