#include "io/ring_crew.hpp"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <mutex>

namespace foregather {

void RingCrew::run() {
  while (refill()) {
    const unsigned busy = in_flight_ + ring_.queued();
    submit(std::min(batch_, busy));
    for (RingResult result; ring_.pop(result);) finish(result);
  }
}

// Reports what is finished and fills the queue; false where the owner stops. One lock a round.
bool RingCrew::refill() {
  std::unique_lock<std::mutex> hold(owner_.lock_);
  owner_.counters_.submissions += submissions_;
  owner_.counters_.retries += retries_;
  submissions_ = retries_ = 0;
  owner_.arrive(finished_);
  finished_.clear();
  while (true) {
    if (owner_.idle()) return false;
    const unsigned busy = in_flight_ + ring_.queued();
    if (busy > 0 && depth_ - busy < batch_) return true;
    for (; !again_.empty(); again_.pop_back()) push(again_.back());
    for (ReadAhead::Issue next; !free_.empty() && owner_.reserve(next);) {
      const unsigned slot = free_.back();
      free_.pop_back();
      slots_[slot] = {next, 0, 0, 0};
      push(slot);
    }
    if (in_flight_ + ring_.queued() > 0) return true;
    owner_.work_.wait(hold);  // nothing in flight and nothing to do
  }
}

void RingCrew::push(unsigned slot) {
  Slot& at = slots_[slot];
  at.asked = std::min(at.issue.length - at.done, kMostPerRead);
  ring_.push({at.issue.data + at.done, static_cast<std::uint32_t>(at.asked),
              at.issue.offset + at.done, slot});
}

void RingCrew::submit(unsigned wait) {
  if (ring_.queued() > 0) ++submissions_;
  const int taken = ring_.enter(wait);
  if (taken >= 0) {
    in_flight_ += static_cast<unsigned>(taken);
    stuck_ = 0;
    return;
  }
  if (!passing(-taken) || ++stuck_ > kMostTries) {
    throw StorageError("io_uring stopped while reading " + file_.name + ": " + errno_text(-taken),
                       -taken);
  }
  ++retries_;
  if (taken == -EINTR) return;
  // No memory for more requests just now: finish one, or give the system a moment.
  if (in_flight_ > 0) {
    ring_.wait(1);
  } else {
    pause();
  }
}

void RingCrew::finish(const RingResult& result) {
  --in_flight_;
  const auto slot = static_cast<unsigned>(result.tag);
  Slot& at = slots_[slot];
  const std::int64_t offset = at.issue.offset, length = at.issue.length;
  const std::int64_t got = file_.judge(offset + at.done, at.asked, result.result);
  if (got < 0) {
    if (!passing(static_cast<int>(-got)) || ++at.tries > kMostTries) {
      file_.fail(static_cast<int>(-got), offset + at.done);
    }
    if (got != -EINTR && at.tries > 1) pause();
  } else {
    at.done = file_.advance(offset, length, at.done, got);
    at.tries = 0;
    if (at.done == length) {
      file_.check(offset, length, at.issue.data);
      finished_.push_back(at.issue);
      free_.push_back(slot);
      return;
    }
  }
  if (got < at.asked) ++retries_;
  again_.push_back(slot);
}

bool RingCrew::sound(const ReadAhead::Issue& issue) const noexcept {
  try {
    file_.check(issue.offset, issue.length, issue.data);
    return true;
  } catch (...) {
    return false;  // it never arrives, so whoever needs it gets the error that led here
  }
}

void RingCrew::drain() noexcept {
  ring_.rewind();
  for (int tries = 0; in_flight_ > 0;) {
    const int code = -ring_.wait(in_flight_);
    for (RingResult result; ring_.pop(result);) {
      --in_flight_;
      Slot& at = slots_[static_cast<unsigned>(result.tag)];
      // What arrived whole counts: steps before a failed read can still be completed.
      const std::int64_t got = file_.judge(at.issue.offset + at.done, at.asked, result.result);
      if (got >= 0 && at.done + got == at.issue.length && sound(at.issue)) {
        finished_.push_back(at.issue);
      }
    }
    if (code == 0 || code == EINTR) continue;
    if (++tries > 10 * kMostTries) {
      // The kernel still owns memory that is about to be freed: stopping is the only answer that
      // cannot corrupt it. Only a ring closed behind our back leads here.
      std::fprintf(stderr, "foregather: io_uring does not answer: %s\n", errno_text(code).c_str());
      std::terminate();
    }
    pause();
  }
  std::lock_guard<std::mutex> hold(owner_.lock_);
  owner_.counters_.submissions += submissions_;
  owner_.counters_.retries += retries_;
  owner_.arrive(finished_);
}

}  // namespace foregather
