#include "io/reading/read_ahead.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/platform.hpp"
#include "io/files/file.hpp"
#include "io/files/probe_ways.hpp"
#include "io/reading/ring.hpp"
#include "io/reading/ring_crew.hpp"
#include "parallel/pages.hpp"

namespace foregather {
namespace {

constexpr std::int64_t kPage = 4096;

// While it lives, new threads of this thread get no signals: they are the caller's business.
class QuietSignals {
 public:
  QuietSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~QuietSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

ReadAhead::ReadAhead(const std::string& path, std::string name, Backend backend, int depth,
                     std::int64_t staging_bytes, std::shared_ptr<Faults> faults,
                     std::shared_ptr<const BlockSums> sums)
    : name_(name.empty() ? last_part(path) : std::move(name)),
      backend_(backend),
      depth_(depth),
      process_(::getpid()),
      faults_(std::move(faults)),
      sums_(std::move(sums)),
      threads_(std::make_unique<std::vector<std::thread>>()) {
  if (depth < 1 || depth > kMaxDepth) {
    throw InputError("depth is " + std::to_string(depth) + ", expected 1 to " +
                     std::to_string(kMaxDepth) + " reads in flight");
  }
  if (staging_bytes < kPage || staging_bytes % kPage != 0) {
    throw InputError("staging has " + std::to_string(staging_bytes) +
                     " bytes, expected a positive multiple of 4096");
  }
  file_ = std::make_unique<Descriptor>(open_regular(path, name_));
  watch_ = std::make_unique<FileWatch>(file_->value, path, name_);
  if (backend_ == Backend::kBuffered) {
    // Advice only: requests are scattered, so reading ahead would read what nobody asked for.
    platform::expect_scattered_reads(file_->value);
  } else {
    alignment_ = make_direct(file_->value, name_);
    if (kPage % alignment_ != 0) {
      throw StorageError("direct reads of " + name_ + " need multiples of " +
                             std::to_string(alignment_) + " bytes, but its rows start at 4096",
                         EINVAL);
    }
  }
  staging_ = std::make_unique<Pages>(static_cast<std::size_t>(staging_bytes));
  start_threads();
}

ReadAhead::~ReadAhead() {
  if (process_ != ::getpid()) {  // a fork has our memory but not our threads: leave them alone
    threads_.release();
    return;
  }
  stop();
  for (std::thread& thread : *threads_) thread.join();
}

void ReadAhead::start_threads() {
  const QuietSignals quiet;
  const int count = backend_ == Backend::kUring ? 1 : depth_;
  starting_ = backend_ == Backend::kUring ? 1 : 0;
  threads_->reserve(static_cast<std::size_t>(count));  // else growing could fail with some started
  try {
    for (int i = 0; i < count; ++i) {
      threads_->emplace_back([this] {
        if (backend_ == Backend::kUring) {
          serve_ring();
        } else {
          serve_pread();
        }
      });
    }
  } catch (const std::system_error& error) {
    stop();
    for (std::thread& thread : *threads_) thread.join();
    throw StorageError("cannot start " + std::to_string(count) + " reading threads: " +
                           error.code().message() + "; choose a smaller depth",
                       error.code().value());
  } catch (...) {  // no memory for one; those that run must be joined before they are destroyed
    stop();
    for (std::thread& thread : *threads_) thread.join();
    throw;
  }
  std::unique_lock<std::mutex> hold(lock_);
  news_.wait(hold, [&] { return starting_ == 0; });
  if (!failed_) return;
  hold.unlock();  // the ring was refused
  for (std::thread& thread : *threads_) thread.join();
  std::rethrow_exception(reason_);
}

// ---- the reading threads ------------------------------------------------------------------------

void ReadAhead::serve_ring() {
  const File file{file_->value, name_, alignment_, faults_.get(), sums_.get()};
  try {
    Ring ring(static_cast<unsigned>(depth_), file_->value);
    const int code = ring.pin(staging_->span());
    {
      std::lock_guard<std::mutex> hold(lock_);
      if (code != 0) {
        pin_refusal_ = code == ENOMEM ? "staging exceeds the limit on locked memory (ulimit -l)"
                                      : "staging cannot be registered: " + errno_text(code);
      }
      starting_ = 0;
      news_.notify_all();
    }
    RingCrew crew(*this, ring, file);
    crew.run();
  } catch (const std::exception&) {
    std::lock_guard<std::mutex> hold(lock_);  // the crew is gone, so nothing is in flight
    fail(std::current_exception());
  }
}

void ReadAhead::serve_pread() {
  const File file{file_->value, name_, alignment_, faults_.get(), sums_.get()};
  std::unique_lock<std::mutex> hold(lock_);
  Issue next;
  while (true) {
    work_.wait(hold, [&] { return idle() || reserve(next); });
    if (idle()) return;
    ++reading_;
    work_.notify_one();  // what there is may be enough for another thread
    hold.unlock();
    std::int64_t again = 0;
    std::exception_ptr wrong;
    try {
      again = pread_whole(file, next.offset, next.length, next.data);
    } catch (const std::exception&) {
      wrong = std::current_exception();
    }
    hold.lock();
    --reading_;
    counters_.retries += again;
    counters_.submissions += 1 + again;
    if (wrong == nullptr) {
      arrive({&next, 1});
    } else {
      fail(wrong);
    }
  }
}

// The next request, with room in staging; false where there is none of either.
bool ReadAhead::reserve(Issue& next) {
  if (pieces_.empty()) return false;
  const Piece& piece = pieces_.front();
  const auto capacity = static_cast<std::int64_t>(staging_->size());
  const std::int64_t length = piece.length[at_];
  if (window_.empty()) head_ = 0;
  const std::int64_t tail = window_.empty() ? capacity : window_.front().begin;
  std::int64_t begin = head_;
  bool room = true;
  if (window_.empty() || head_ > tail) {  // free: from head to the end, and before the tail
    if (capacity - head_ < length) {
      room = !window_.empty() && tail >= length;
      begin = 0;
    }
  } else {
    room = tail - head_ >= length;
  }
  if (!room) {  // only the caller can make some: it must not wait for more
    if (!starved_ && !arrived_.empty()) news_.notify_all();
    starved_ = true;
    return false;
  }
  next = {first_ + static_cast<std::int64_t>(window_.size()), piece.offset[at_], length,
          staging_->data() + begin};
  window_.push_back({begin, false, false});
  head_ = begin + length;
  if (++at_ == piece.count) {
    pieces_.pop_front();
    at_ = 0;
  }
  return true;
}

void ReadAhead::arrive(std::span<const Issue> finished) {
  if (finished.empty()) return;
  for (const Issue& issue : finished) {
    window_[static_cast<std::size_t>(issue.number - first_)].arrived = true;
    arrived_.push_back({issue.number, issue.data});
    ++counters_.requests;
    counters_.bytes += issue.length;
  }
  if (starved_ || arrived_.size() >= wanted_) news_.notify_all();
}

void ReadAhead::fail(std::exception_ptr reason) {
  if (!failed_) reason_ = std::move(reason);
  failed_ = true;
  starting_ = 0;
  work_.notify_all();
  news_.notify_all();
}

// ---- the caller's side --------------------------------------------------------------------------

void ReadAhead::check_process() const {
  if (process_ != ::getpid()) {
    throw InputError(name_ +
                     " was opened for reading ahead in another process; open it again here");
  }
}

void ReadAhead::push(std::span<const std::int64_t> offset, std::span<const std::int64_t> length) {
  check_process();
  if (offset.size() != length.size()) {
    throw InputError("requests have " + std::to_string(offset.size()) + " offsets and " +
                     std::to_string(length.size()) + " lengths; give as many of each");
  }
  const std::int64_t size = file_bytes();
  const auto room = static_cast<std::int64_t>(staging_->size());
  for (std::size_t i = 0; i < offset.size(); ++i) {
    const std::int64_t from = offset[i], bytes = length[i];
    if (from >= 0 && bytes > 0 && from % kPage == 0 && bytes % kPage == 0 && bytes <= room &&
        from <= size && bytes <= size - from) {
      continue;
    }
    const std::string given = "request " + std::to_string(i) + " is (offset " +
                              std::to_string(from) + ", length " + std::to_string(bytes) + ")";
    if (bytes > room) {
      throw InputError(given + ", but staging has " + std::to_string(room) +
                       " bytes; give at least " + std::to_string(bytes));
    }
    throw InputError(given + ", expected multiples of 4096 inside the " + std::to_string(size) +
                     " bytes of " + name_);
  }
  if (offset.empty()) return;
  std::lock_guard<std::mutex> hold(lock_);
  pieces_.push_back({offset.data(), length.data(), offset.size()});
  work_.notify_all();
}

void ReadAhead::take(std::vector<Arrival>& into, std::int64_t limit, std::int64_t enough,
                     std::chrono::milliseconds patience) {
  check_process();
  std::unique_lock<std::mutex> hold(lock_);
  // A failure is known in full only when no other read is in flight.
  auto settled = [&] { return stopping_ || (failed_ && reading_ == 0); };
  wanted_ = static_cast<std::size_t>(std::clamp<std::int64_t>(enough, 1, std::max(1, depth_ / 4)));
  news_.wait_for(hold, patience, [&] {
    return arrived_.size() >= wanted_ || (starved_ && !arrived_.empty()) || settled();
  });
  into.insert(into.end(), arrived_.begin(), arrived_.end());
  arrived_.clear();
  if (!settled()) return;
  if (stopping_ && !failed_) throw StorageError("reading " + name_ + " was stopped", ECANCELED);
  std::int64_t lost = first_;  // the first that did not and will not arrive
  for (const Place& place : window_) {
    if (!place.arrived) break;
    ++lost;
  }
  if (lost < limit) std::rethrow_exception(reason_);
}

void ReadAhead::release(std::span<const std::int64_t> numbers) {
  std::lock_guard<std::mutex> hold(lock_);
  for (std::int64_t number : numbers) {
    window_[static_cast<std::size_t>(number - first_)].released = true;
  }
  const bool freed = !window_.empty() && window_.front().released;
  if (freed) starved_ = false;
  while (!window_.empty() && window_.front().released) {
    window_.pop_front();
    ++first_;
  }
  if (freed) work_.notify_one();  // a thread that finds room wakes the next
}

void ReadAhead::stop() {
  std::lock_guard<std::mutex> hold(lock_);
  stopping_ = true;
  work_.notify_all();
  news_.notify_all();
}

void ReadAhead::check_file() const { watch_->check(); }

std::int64_t ReadAhead::file_bytes() const { return watch_->size(); }

std::string ReadAhead::pin_refusal() const {
  std::lock_guard<std::mutex> hold(lock_);
  return pin_refusal_;
}

ReadCounters ReadAhead::counters() const {
  std::lock_guard<std::mutex> hold(lock_);
  return counters_;
}

}  // namespace foregather
