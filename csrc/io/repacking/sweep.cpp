#include "io/repacking/sweep.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/types.hpp"
#include "io/files/file.hpp"
#include "io/files/scratch_file.hpp"
#include "io/reading/read_ahead.hpp"
#include "io/repacking/run_writer.hpp"

namespace foregather {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPatience{50};  // between two calls of `poll`

}  // namespace

Sweeper::Sweeper(const std::string& path, std::string name, const Geometry& geometry,
                 SweepOptions options)
    : path_(path),
      name_(name.empty() ? last_part(path) : std::move(name)),
      geometry_(geometry),
      options_(std::move(options)),
      file_(std::make_unique<Descriptor>(open_regular(path, name_))),
      watch_(std::make_unique<FileWatch>(file_->value, path, name_)) {
  check_geometry(geometry_);
}

Sweeper::~Sweeper() = default;

std::int64_t Sweeper::least_write_bytes(std::int64_t batches) {
  return RunWriter::bytes_for(batches);
}

SweepCounters Sweeper::counters() const {
  std::lock_guard<std::mutex> hold(lock_);
  return counters_;
}

void Sweeper::check(const RepackPlan& plan) const {
  const Geometry& at = plan.source;
  if (at.num_rows != geometry_.num_rows || at.row_bytes != geometry_.row_bytes ||
      at.payload != geometry_.payload || at.file_bytes != geometry_.file_bytes) {
    throw InputError("the repack plan is for another file than " + name_ +
                     "; make one with this file's geometry");
  }
  if (plan.move_row.empty()) throw InputError("the bulk misses no row; there is nothing to sweep");
  const std::int64_t least = least_write_bytes(plan.scratch.steps());
  if (options_.write_bytes < least) {
    throw InputError("a bulk of " + std::to_string(plan.scratch.steps()) + " batches needs " +
                     std::to_string(least) + " bytes of buffers, but write_bytes is " +
                     std::to_string(options_.write_bytes));
  }
}

std::shared_ptr<ScratchFile> Sweeper::sweep(const RepackPlan& plan, const std::string& folder,
                                            const std::function<void()>& poll) {
  check(plan);
  std::lock_guard<std::mutex> hold(turn_);
  const auto start = Clock::now();
  watch_->check();
  const Geometry& made = plan.scratch.geometry;
  auto scratch =
      std::make_shared<ScratchFile>(folder, made.file_bytes, made.row_bytes, options_.write_faults);
  RunWriter writer(*scratch, plan, options_.write_bytes);
  const ReadCounters reads = run(plan, writer, poll);
  writer.finish();
  watch_->check();
  std::lock_guard<std::mutex> counting(lock_);
  ++counters_.sweeps;
  counters_.moves += static_cast<std::int64_t>(plan.move_row.size());
  counters_.writes += writer.writes();
  counters_.written += writer.written();
  counters_.reads.requests += reads.requests;
  counters_.reads.bytes += reads.bytes;
  counters_.reads.submissions += reads.submissions;
  counters_.reads.retries += reads.retries;
  counters_.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  return scratch;
}

// Requests arrive in any order and are served in theirs: a run is written from front to end.
ReadCounters Sweeper::run(const RepackPlan& plan, RunWriter& writer,
                          const std::function<void()>& poll) {
  ReadAhead reader(path_, name_, options_.backend, options_.depth, options_.staging_bytes,
                   options_.faults, options_.sums);
  reader.push(plan.request_offset, plan.request_length);
  const std::size_t count = plan.request_offset.size();
  std::vector<const std::byte*> data(count, nullptr);
  std::vector<Arrival> arrived;
  std::vector<std::int64_t> done;
  auto polled = Clock::now();
  std::int64_t left = static_cast<std::int64_t>(count);
  for (std::size_t next = 0; next < count;) {
    arrived.clear();
    reader.take(arrived, static_cast<std::int64_t>(count), left, kPatience);
    left -= static_cast<std::int64_t>(arrived.size());
    for (const Arrival& one : arrived) data[static_cast<std::size_t>(one.number)] = one.data;
    for (; next < count && data[next] != nullptr; ++next) {
      move(plan, next, data[next], writer);
      done.assign(1, static_cast<std::int64_t>(next));
      reader.release(done);
    }
    // relaxed: seen a moment later, it costs that moment
    if (cancelled_.load(std::memory_order_relaxed)) {
      throw StorageError("the sweep of " + name_ + " was stopped", ECANCELED);
    }
    if (poll && Clock::now() - polled >= kPatience) {
      poll();
      polled = Clock::now();
    }
  }
  return reader.counters();
}

void Sweeper::move(const RepackPlan& plan, std::size_t request, const std::byte* data,
                   RunWriter& writer) const {
  const std::int64_t from = plan.request_offset[request], length = plan.request_length[request];
  const auto end = static_cast<std::size_t>(plan.move_ptr[request + 1]);
  for (auto m = static_cast<std::size_t>(plan.move_ptr[request]); m < end; ++m) {
    const std::int64_t at = geometry_.start(plan.move_row[m]) - from;
    if (at < 0 || at + geometry_.row_bytes > length) {
      throw InputError("row " + std::to_string(plan.move_row[m]) +
                       " lies outside its request; make the repack plan again");
    }
    writer.put(plan.move_index[m], data + at);
  }
}

}  // namespace foregather
