#include "io/reading/ring_crew.hpp"

#include <cerrno>
#include <mutex>

namespace foregather {

void RingCrew::run() {
  while (refill()) {
    flight_.submit(std::min(batch_, flight_.busy()), submissions_, retries_);
    for (RingResult result; flight_.take(result);) finish(result);
  }
}

// Reports what is finished and fills the queue; false where the owner stops. One lock per round.
bool RingCrew::refill() {
  std::unique_lock<std::mutex> hold(owner_.lock_);
  owner_.counters_.submissions += submissions_;
  owner_.counters_.retries += retries_;
  submissions_ = retries_ = 0;
  owner_.arrive(finished_);
  finished_.clear();
  while (true) {
    if (owner_.idle()) return false;
    const unsigned busy = flight_.busy();
    if (busy > 0 && depth_ - busy < batch_) return true;
    for (; !again_.empty(); again_.pop_back()) push(again_.back());
    for (ReadAhead::Issue next; !free_.empty() && owner_.reserve(next);) {
      const unsigned slot = free_.back();
      free_.pop_back();
      slots_[slot] = {next, 0, 0, 0};
      push(slot);
    }
    if (flight_.busy() > 0) return true;
    owner_.work_.wait(hold);  // nothing in flight and nothing to do
  }
}

void RingCrew::push(unsigned slot) {
  Slot& at = slots_[slot];
  at.asked = std::min(at.issue.length - at.done, kMostPerRead);
  ring_.push({at.issue.data + at.done, static_cast<std::uint32_t>(at.asked),
              at.issue.offset + at.done, slot});
}

void RingCrew::finish(const RingResult& result) {
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
  flight_.drain([this](const RingResult& result) {
    const Slot& at = slots_[static_cast<unsigned>(result.tag)];
    // What arrived whole counts: steps before a failed read can still be completed.
    const std::int64_t got = file_.judge(at.issue.offset + at.done, at.asked, result.result);
    if (got >= 0 && at.done + got == at.issue.length && sound(at.issue)) {
      finished_.push_back(at.issue);
    }
  });
  std::lock_guard<std::mutex> hold(owner_.lock_);
  owner_.counters_.submissions += submissions_;
  owner_.counters_.retries += retries_;
  owner_.arrive(finished_);
}

}  // namespace foregather
