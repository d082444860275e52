// WindowReader: reads window after window on a thread of its own, one window ahead. Private to the
// disk sampler.
//
// Two staging buffers take turns: while the caller works on one window, the next is read. The
// thread lives as long as the object, so that a kernel ring is made once per bulk. An error of the
// reader is kept and thrown by wait(). Leaving, also by an exception, waits for the current read.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>

#include "io/reading/reader.hpp"
#include "plan/block_pass.hpp"

namespace foregather {

class WindowReader {
 public:
  WindowReader(BlockReader& reader, std::span<std::byte> staging)
      : reader_(reader), staging_(staging) {}
  ~WindowReader() {
    {
      std::lock_guard<std::mutex> hold(lock_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  WindowReader(const WindowReader&) = delete;
  WindowReader& operator=(const WindowReader&) = delete;

  /// Where the requests of the next window are written before post(); at most two windows may be
  /// posted and not yet done with.
  WindowRequests& next() { return requests_[static_cast<std::size_t>(posted_ % 2)]; }
  /// Hands over what next() holds.
  void post() {
    {
      std::lock_guard<std::mutex> hold(lock_);
      ++posted_;
    }
    if (!thread_.joinable()) start();
    changed_.notify_all();
  }
  /// The bytes of the oldest window posted and not done with; throws what the reader threw.
  const std::byte* wait() {
    std::unique_lock<std::mutex> hold(lock_);
    changed_.wait(hold, [&] { return read_ > done_ || error_ != nullptr; });
    if (error_ != nullptr) std::rethrow_exception(error_);
    return half(done_).data();
  }
  /// Says that the window that wait() returned is no longer looked at.
  void done() { ++done_; }

 private:
  std::span<std::byte> half(std::int64_t window) const {
    const std::size_t size = staging_.size() / 2;
    return staging_.subspan(static_cast<std::size_t>(window % 2) * size, size);
  }

  void start() {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      throw StorageError("cannot start the reading thread: " + error.code().message(),
                         error.code().value());
    }
  }

  void run() {
    std::unique_lock<std::mutex> hold(lock_);
    for (;;) {
      changed_.wait(hold, [&] { return stop_ || posted_ > read_; });
      if (stop_) return;
      const WindowRequests& asked = requests_[static_cast<std::size_t>(read_ % 2)];
      hold.unlock();
      std::exception_ptr error;
      try {
        reader_.read({asked.offset, asked.length, asked.destination}, half(read_));
      } catch (...) {
        error = std::current_exception();
      }
      hold.lock();
      error_ = error;
      if (error_ == nullptr) ++read_;
      changed_.notify_all();
      if (error_ != nullptr) return;
    }
  }

  BlockReader& reader_;
  std::span<std::byte> staging_;
  std::array<WindowRequests, 2> requests_;
  std::mutex lock_;  ///< guards posted_, read_ (written by the thread), stop_ and error_
  std::condition_variable changed_;
  std::int64_t posted_ = 0, read_ = 0;
  std::int64_t done_ = 0;  ///< only the caller's
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace foregather
