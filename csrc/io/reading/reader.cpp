#include "io/reading/reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>

#include "base/platform.hpp"
#include "io/files/probe_ways.hpp"
#include "io/reading/read_window.hpp"
#include "io/reading/ring.hpp"
#include "parallel/pool.hpp"

namespace foregather {
namespace {

// A number for the calling thread that, unlike its system id, is never given out again.
std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> next{1};
  // relaxed: only distinctness matters
  thread_local const std::uint64_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace

const char* backend_name(Backend backend) {
  switch (backend) {
    case Backend::kUring:
      return "io_uring";
    case Backend::kPread:
      return "pread";
    default:
      return "buffered";
  }
}

Backend parse_backend(const std::string& name) {
  for (Backend backend : kLadder) {
    if (name == backend_name(backend)) return backend;
  }
  throw InputError("backend is '" + name + "'; choose io_uring, pread or buffered");
}

BlockReader::BlockReader(const std::string& path, Backend backend, int depth, std::string name,
                         std::shared_ptr<const BlockSums> sums)
    : name_(name.empty() ? last_part(path) : std::move(name)),
      backend_(backend),
      depth_(depth),
      sums_(std::move(sums)) {
  if (depth < 1 || depth > kMaxDepth) {
    throw InputError("depth is " + std::to_string(depth) + ", expected 1 to " +
                     std::to_string(kMaxDepth) + " reads in flight");
  }
  file_ = std::make_unique<Descriptor>(open_regular(path, name_));
  if (backend_ == Backend::kBuffered) {
    // Advice only: requests are scattered, so reading ahead would read what nobody asked for.
    platform::expect_scattered_reads(file_->value);
    return;
  }
  alignment_ = make_direct(file_->value, name_);
  if (backend_ == Backend::kUring) own_ring();  // refused: now, not in the middle of the work
}

BlockReader::~BlockReader() = default;

void BlockReader::check(const Requests& requests, std::span<std::byte> buffer) const {
  const std::size_t n = requests.size();
  if (requests.length.size() != n || requests.destination.size() != n) {
    throw InputError("requests have " + std::to_string(n) + " offsets, " +
                     std::to_string(requests.length.size()) + " lengths and " +
                     std::to_string(requests.destination.size()) +
                     " destinations; give as many of each");
  }
  const std::string rule = "; direct reads need multiples of " + std::to_string(alignment_);
  if (n > 0 && reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment_ != 0) {
    throw InputError("the buffer does not start at an aligned address" + rule);
  }
  const auto room = static_cast<std::int64_t>(buffer.size());
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t offset = requests.offset[i], length = requests.length[i],
                       destination = requests.destination[i];
    auto refuse = [&](const std::string& why) {
      throw InputError("request " + std::to_string(i) + " is (offset " + std::to_string(offset) +
                       ", length " + std::to_string(length) + ", destination " +
                       std::to_string(destination) + ")" + why);
    };
    if (offset < 0 || length <= 0 || destination < 0 || offset > INT64_MAX - length) {
      refuse("; offsets and destinations start at 0, lengths at 1");
    }
    if (destination > room || length > room - destination) {
      refuse(" but the buffer has " + std::to_string(room) + " bytes; give a larger one");
    }
    if (offset % alignment_ != 0 || length % alignment_ != 0 || destination % alignment_ != 0) {
      refuse(rule);
    }
  }
}

void BlockReader::read(const Requests& requests, std::span<std::byte> buffer) {
  std::lock_guard<std::mutex> hold(lock_);
  check(requests, buffer);
  const auto start = std::chrono::steady_clock::now();
  auto stop = [&] {
    counters_.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  try {
    if (backend_ == Backend::kUring) {
      read_ring(requests, buffer.data());
    } else {
      read_threads(requests, buffer.data());
    }
  } catch (...) {
    stop();
    throw;
  }
  stop();
}

Ring& BlockReader::own_ring() {
  if (ring_ && ring_thread_ == this_thread() && ring_process_ == ::getpid()) return *ring_;
  ring_.reset();
  ring_ = std::make_unique<Ring>(static_cast<unsigned>(depth_), file_->value);
  ring_thread_ = this_thread();
  ring_process_ = ::getpid();
  if (!attached_.empty()) {
    const int code = ring_->pin(attached_);
    pin_refusal_ = code == 0        ? ""
                   : code == ENOMEM ? "the buffer exceeds the limit on locked memory (ulimit -l)"
                                    : "the buffer cannot be registered: " + errno_text(code);
  }
  return *ring_;
}

void BlockReader::read_ring(const Requests& requests, std::byte* buffer) {
  const File file{file_->value, name_, alignment_, nullptr, sums_.get()};
  Ring& ring = own_ring();
  try {
    Flight flight(ring, file, requests, buffer, depth_, counters_);
    flight.run();
  } catch (...) {
    ring_.reset();  // drained by then; the next read starts from a clean ring
    throw;
  }
}

void BlockReader::read_threads(const Requests& requests, std::byte* buffer) {
  const File file{file_->value, name_, alignment_, nullptr, sums_.get()};
  std::atomic<std::int64_t> finished{0}, bytes{0}, retries{0};
  std::atomic<bool> failed{false};
  auto one = [&](std::int64_t item, int) {
    // relaxed: a late look costs one more read; the counters are read after the threads joined
    if (failed.load(std::memory_order_relaxed)) return;
    const auto i = static_cast<std::size_t>(item);
    try {
      const std::int64_t again = pread_whole(file, requests.offset[i], requests.length[i],
                                             buffer + requests.destination[i]);
      retries.fetch_add(again, std::memory_order_relaxed);
      finished.fetch_add(1, std::memory_order_relaxed);
      bytes.fetch_add(requests.length[i], std::memory_order_relaxed);
    } catch (...) {
      failed.store(true, std::memory_order_relaxed);
      throw;
    }
  };
  auto count = [&] {
    counters_.requests += finished;
    counters_.bytes += bytes;
    counters_.retries += retries;
    counters_.submissions += finished + retries;
  };
  try {
    parallel_tasks(static_cast<std::int64_t>(requests.size()), depth_, one);
  } catch (...) {
    count();
    throw;
  }
  count();
}

bool BlockReader::attach(std::span<std::byte> memory) {
  std::lock_guard<std::mutex> hold(lock_);
  pin_refusal_.clear();
  attached_ = {};
  if (backend_ != Backend::kUring) return false;
  attached_ = memory;
  ring_.reset();  // a new ring takes the memory, so that no ring ever holds two
  return own_ring().pinned();
}

void BlockReader::detach() {
  std::lock_guard<std::mutex> hold(lock_);
  attached_ = {};
  ring_.reset();
}

std::string BlockReader::pin_refusal() const {
  std::lock_guard<std::mutex> hold(lock_);
  return pin_refusal_;
}

ReadCounters BlockReader::counters() const {
  std::lock_guard<std::mutex> hold(lock_);
  return counters_;
}

}  // namespace foregather
