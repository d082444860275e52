#include "io/gathering/disk_gather.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <variant>

#include "base/types.hpp"
#include "io/files/file.hpp"
#include "io/gathering/row_copy.hpp"
#include "parallel/pages.hpp"
#include "parallel/pool.hpp"

namespace foregather {
namespace {

using Clock = std::chrono::steady_clock;
using RowCopy = std::variant<CopyBytes, CopyHalf, CopyScaled>;

constexpr std::size_t kLine = 64;
constexpr std::size_t kAheadBytes = 2 * kLine;  // of a row; what follows is found by the hardware
constexpr std::int64_t kAhead = 12;             // rows prefetched ahead of use
constexpr std::size_t kGrainBytes = std::size_t{512} << 10;  // handed to a thread at a time
constexpr std::size_t kThreadBytes = std::size_t{8} << 20;   // what makes another thread worth it
constexpr std::chrono::milliseconds kPatience{50};           // between two calls of `poll`

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

RowCopy row_copy(const Geometry& geometry, const DiskOptions& options) {
  const auto bytes = static_cast<std::size_t>(geometry.row_bytes);
  switch (options.form) {
    case Form::kHalf:
      if (bytes % 2 != 0) {
        throw InputError("rows of " + std::to_string(bytes) + " bytes cannot hold float16");
      }
      return CopyHalf{bytes / 2};
    case Form::kScaled:
      if (options.scale.size() != bytes) {
        throw InputError("scale has " + std::to_string(options.scale.size()) +
                         " numbers, expected one for each of " + std::to_string(bytes) +
                         " columns");
      }
      return CopyScaled{options.scale.data(), bytes};
    default:
      return CopyBytes{bytes};
  }
}

void ask(const std::byte* row, std::size_t bytes) {
  for (std::size_t at = 0; at < std::min(bytes, kAheadBytes); at += kLine) {
    __builtin_prefetch(row + at);
  }
}

}  // namespace

DiskGather::DiskGather(const std::string& path, std::string name, const Geometry& geometry,
                       std::int64_t num_slots, DiskOptions options)
    : name_(name.empty() ? last_part(path) : std::move(name)),
      geometry_(geometry),
      num_slots_(num_slots),
      options_(std::move(options)),
      process_(::getpid()) {
  check_geometry(geometry_);
  if (num_slots < 0 || num_slots >= kNone ||
      num_slots > (std::int64_t{1} << 60) / geometry_.row_bytes) {
    throw InputError("num_slots is " + std::to_string(num_slots) + ", expected 0 to 2^32 - 2");
  }
  out_row_bytes_ = static_cast<std::int64_t>(
      std::visit([](const auto& copy) { return copy.out_bytes(); }, row_copy(geometry_, options_)));
  const auto bytes = static_cast<std::size_t>(num_slots * geometry_.row_bytes);
  slots_ = options_.slots ? std::move(options_.slots) : std::make_shared<Pages>(bytes);
  if (slots_->size() != bytes) {
    throw InputError("shared slots have " + std::to_string(slots_->size()) + " bytes, expected " +
                     std::to_string(bytes));
  }
  reader_ = std::make_unique<ReadAhead>(path, name_, options_.backend, options_.depth,
                                        options_.staging_bytes, options_.faults, options_.sums);
  if (reader_->file_bytes() != geometry_.file_bytes) {
    throw StorageError(name_ + " has " + std::to_string(reader_->file_bytes()) +
                           " bytes, expected " + std::to_string(geometry_.file_bytes) +
                           "; it is truncated or not the file that was described",
                       ESTALE);
  }
}

std::shared_ptr<Pages> make_slots(std::int64_t bytes) {
  return std::make_shared<Pages>(static_cast<std::size_t>(bytes));
}

DiskGather::~DiskGather() {
  // A fork has our memory but not our threads, and perhaps a lock that nobody will ever open.
  if (process_ != ::getpid()) static_cast<void>(reader_.release());
  close();
}

void DiskGather::check_process() const {
  if (process_ != ::getpid()) {
    throw InputError("the gather from " + name_ + " was opened in another process; open it again");
  }
}

void DiskGather::check_open() const {
  if (!closed_.empty()) throw StorageError("the gather from " + name_ + " " + closed_, ECANCELED);
}

void DiskGather::check_fit(const Plan& plan) const {
  const Geometry& at = plan.geometry;
  if (at.num_rows != geometry_.num_rows || at.row_bytes != geometry_.row_bytes ||
      at.payload != geometry_.payload || at.file_bytes != geometry_.file_bytes) {
    throw InputError("the plan is for another file than " + name_ +  // blocks are its own choice
                     "; make one with this file's geometry");
  }
  if (plan.num_slots != num_slots_) {
    throw InputError("the plan is for " + std::to_string(plan.num_slots) +
                     " slots, but there are " + std::to_string(num_slots_) +
                     "; plan with as many as the executor has");
  }
  check_plan(plan);
}

void DiskGather::append(std::shared_ptr<const Plan> plan) {
  check_process();
  std::lock_guard<std::mutex> hold(turn_);
  check_open();
  check_fit(*plan);
  reader_->check_file();
  if (plan->num_rows.empty()) return;
  reader_->push(plan->request_offset, plan->request_length);
  plans_.push_back(std::move(plan));
}

void DiskGather::step(std::span<std::byte> out, const std::function<void()>& poll) {
  check_process();
  std::lock_guard<std::mutex> hold(turn_);
  check_open();
  if (plans_.empty()) throw InputError("no step is queued; append a plan first");
  const auto start = Clock::now();
  const Plan& plan = *plans_.front();
  const std::int64_t rows = plan.num_rows[step_];
  if (static_cast<std::int64_t>(out.size()) != rows * out_row_bytes_) {
    throw InputError("out has " + std::to_string(out.size()) + " bytes, but the next step has " +
                     std::to_string(rows) + " rows of " + std::to_string(out_row_bytes_));
  }
  try {
    run(plan, out.data(), poll);
    reader_->check_file();
  } catch (const StorageError& error) {
    closed_ = std::string("ended with an error: ") + error.what();
    throw;
  } catch (const FormatError& error) {
    closed_ = std::string("ended with an error: ") + error.what();
    throw;
  } catch (...) {
    closed_ = "was interrupted in the middle of a step";
    throw;
  }
  ++counters_.steps;
  counters_.rows += rows;
  counters_.hits += plan.hit_ptr[step_ + 1] - plan.hit_ptr[step_];
  counters_.total += since(start);
  if (++step_ == plan.num_rows.size()) {
    base_ += static_cast<std::int64_t>(plan.request_offset.size());
    step_ = 0;
    plans_.pop_front();
  }
}

void DiskGather::run(const Plan& plan, std::byte* out, const std::function<void()>& poll) {
  std::visit([&](const auto& copy) { serve(plan, out, poll, copy); },
             row_copy(geometry_, options_));
}

template <typename Copy>
void DiskGather::serve(const Plan& plan, std::byte* out, const std::function<void()>& poll,
                       const Copy& copy) {
  auto start = Clock::now(), polled = start;
  copy_hits(plan, out, copy);
  const std::int64_t limit = base_ + plan.request_ptr[step_ + 1];
  std::int64_t left = plan.request_ptr[step_ + 1] - plan.request_ptr[step_];
  batch_.swap(early_);  // what came early may be wanted now
  early_.clear();
  while (true) {
    done_.clear();
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      if (batch_[i].number >= limit) {
        early_.push_back(batch_[i]);
        continue;
      }
      if (i + 1 < batch_.size()) ask(batch_[i + 1].data, kAheadBytes);
      scatter(plan, batch_[i], out, copy);
      done_.push_back(batch_[i].number);
    }
    if (!done_.empty()) reader_->release(done_);
    batch_.clear();
    left -= static_cast<std::int64_t>(done_.size());
    counters_.copying += since(start);
    if (left == 0) return;
    start = Clock::now();
    reader_->take(batch_, limit, left, kPatience);
    counters_.waiting += since(start);
    // relaxed: seen a moment later, it costs that moment
    if (closing_.load(std::memory_order_relaxed)) {
      throw StorageError("the gather from " + name_ + " was closed during a step", ECANCELED);
    }
    start = Clock::now();
    if (poll && start - polled >= kPatience) {
      poll();
      polled = start;
    }
  }
}

template <typename Copy>
void DiskGather::copy_hits(const Plan& plan, std::byte* out, const Copy& copy) {
  const std::int64_t first = plan.hit_ptr[step_], count = plan.hit_ptr[step_ + 1] - first;
  const std::uint32_t* const slot = plan.hit_slot.data() + first;
  const std::uint32_t* const position = plan.hit_position.data() + first;
  const std::byte* const slots = slots_->data();
  const auto row_bytes = static_cast<std::size_t>(geometry_.row_bytes);
  const std::size_t out_bytes = copy.out_bytes();
  const std::size_t worth = static_cast<std::size_t>(count) * row_bytes / kThreadBytes;
  const int most = options_.threads > 0 ? options_.threads : default_threads();
  const int threads =
      static_cast<int>(std::clamp<std::size_t>(worth, 1, static_cast<std::size_t>(most)));
  const auto grain = static_cast<std::int64_t>(kGrainBytes / row_bytes + 1);
  const Copy one = copy;
  parallel_blocks(count, threads, grain, [=](std::int64_t begin, std::int64_t end, int) {
    auto row = [=](std::int64_t k) { return slots + slot[k] * row_bytes; };
    for (std::int64_t k = begin; k < std::min(begin + kAhead, end); ++k) ask(row(k), row_bytes);
    for (std::int64_t k = begin; k < end; ++k) {
      if (k + kAhead < end) ask(row(k + kAhead), row_bytes);
      one(row(k), out + position[k] * out_bytes);
    }
  });
}

template <typename Copy>
void DiskGather::scatter(const Plan& plan, const Arrival& arrival, std::byte* out,
                         const Copy& copy) {
  const auto request = static_cast<std::size_t>(arrival.number - base_);
  const auto row_bytes = static_cast<std::size_t>(geometry_.row_bytes);
  // Byte of the file that staging's first byte stands for, seen from row 0.
  const std::int64_t shift = geometry_.payload - plan.request_offset[request];
  std::byte* const slots = slots_->data();
  const auto end = static_cast<std::size_t>(plan.copy_ptr[request + 1]);
  for (auto k = static_cast<std::size_t>(plan.copy_ptr[request]); k < end; ++k) {
    const std::byte* row = arrival.data + (shift + plan.copy_row[k] * geometry_.row_bytes);
    const std::uint32_t position = plan.copy_position[k], slot = plan.copy_slot[k];
    if (k + 1 < end) {
      ask(arrival.data + (shift + plan.copy_row[k + 1] * geometry_.row_bytes), row_bytes);
    }
    if (position != kNone) {
      copy(row, out + position * copy.out_bytes());
    } else if (slot != kNone) {
      ++counters_.riders;
    }
    if (slot != kNone) std::memcpy(slots + slot * row_bytes, row, row_bytes);
  }
}

std::int64_t DiskGather::steps_left() const {
  check_process();
  std::lock_guard<std::mutex> hold(turn_);
  std::int64_t steps = -static_cast<std::int64_t>(step_);
  for (const auto& plan : plans_) steps += static_cast<std::int64_t>(plan->num_rows.size());
  return steps;
}

std::int64_t DiskGather::next_rows() const {
  check_process();
  std::lock_guard<std::mutex> hold(turn_);
  return plans_.empty() ? -1 : plans_.front()->num_rows[step_];
}

std::int64_t DiskGather::memory_bytes() const {
  return num_slots_ * geometry_.row_bytes + options_.staging_bytes;
}

std::string DiskGather::pin_refusal() const {
  check_process();
  std::lock_guard<std::mutex> hold(turn_);
  return reader_ ? reader_->pin_refusal() : "";
}

GatherCounters DiskGather::counters() const {
  check_process();
  std::lock_guard<std::mutex> hold(turn_);
  GatherCounters counted = counters_;
  counted.reads = reader_ ? reader_->counters() : last_reads_;
  return counted;
}

void DiskGather::close() {
  if (process_ != ::getpid()) return;
  closing_.store(true, std::memory_order_relaxed);  // a step that waits looks at it, then lets go
  std::lock_guard<std::mutex> hold(turn_);
  if (!reader_) return;
  if (closed_.empty()) closed_ = "is closed";
  last_reads_ = reader_->counters();
  reader_.reset();
  slots_.reset();
  plans_.clear();
  early_.clear();
  step_ = 0;
}

}  // namespace foregather
