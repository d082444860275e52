// Faults: what a disk may do wrong, on demand, so that tests can watch the answer.
//
// A read that touches bytes [begin, end) of the file is made to fail with an errno, to come back
// short, or to come late, the next `times` times. Only tests make one; a reader without it tests
// one pointer per read. May be used from several threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace foregather {

class Faults {
 public:
  void fail(std::int64_t begin, std::int64_t end, int code, std::int64_t times) {
    add({Kind::kFail, begin, end, code, times});
  }
  void shorten(std::int64_t begin, std::int64_t end, std::int64_t bytes, std::int64_t times) {
    add({Kind::kShorten, begin, end, bytes, times});
  }
  void delay(std::int64_t begin, std::int64_t end, std::int64_t milliseconds, std::int64_t times) {
    add({Kind::kDelay, begin, end, milliseconds, times});
  }

  /// What became of a read of `asked` bytes at `offset`: bytes moved, or minus an errno.
  std::int64_t apply(std::int64_t offset, std::int64_t asked, std::int64_t result) {
    std::int64_t sleep = 0;
    {
      std::lock_guard<std::mutex> hold(lock_);
      for (Rule& rule : rules_) {
        if (rule.times == 0 || offset >= rule.end || offset + asked <= rule.begin) continue;
        --rule.times;
        if (rule.kind == Kind::kDelay) {
          sleep += rule.value;
        } else {
          result = rule.kind == Kind::kFail ? -rule.value : std::min(result, rule.value);
        }
      }
    }
    if (sleep > 0) std::this_thread::sleep_for(std::chrono::milliseconds(sleep));
    return result;
  }

 private:
  enum class Kind { kFail, kShorten, kDelay };
  struct Rule {
    Kind kind;
    std::int64_t begin, end, value, times;
  };

  void add(const Rule& rule) {
    std::lock_guard<std::mutex> hold(lock_);
    rules_.push_back(rule);
  }

  std::mutex lock_;
  std::vector<Rule> rules_;
};

}  // namespace foregather
