// Evictors: the classic rules for which slot to give up, all over numbered slots.
//
// A slot is inserted with a row, hit while it holds it, and given up by evict(). Slots are handed
// out by the caller; evict() is only called when all are in use.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace foregather {

/// A doubly linked list over slot numbers.
class SlotList {
 public:
  explicit SlotList(std::size_t slots) : before_(slots, kNone), after_(slots, kNone) {}
  std::uint32_t head() const { return head_; }
  std::uint32_t tail() const { return tail_; }
  std::uint32_t before(std::uint32_t slot) const { return before_[slot]; }
  std::size_t size() const { return size_; }
  void push_front(std::uint32_t slot) {
    before_[slot] = kNone;
    after_[slot] = head_;
    (head_ == kNone ? tail_ : before_[head_]) = slot;
    head_ = slot;
    ++size_;
  }
  void remove(std::uint32_t slot) {
    (before_[slot] == kNone ? head_ : after_[before_[slot]]) = after_[slot];
    (after_[slot] == kNone ? tail_ : before_[after_[slot]]) = before_[slot];
    --size_;
  }

 private:
  std::vector<std::uint32_t> before_, after_;
  std::uint32_t head_ = kNone, tail_ = kNone;
  std::size_t size_ = 0;
};

class Evictor {
 public:
  virtual ~Evictor() = default;
  virtual void hit(std::uint32_t slot) = 0;
  virtual void insert(std::uint32_t slot, std::uint32_t row) = 0;
  virtual std::uint32_t evict() = 0;
};

class Lru final : public Evictor {
 public:
  explicit Lru(std::size_t slots) : list_(slots) {}
  void hit(std::uint32_t slot) override {
    list_.remove(slot);
    list_.push_front(slot);
  }
  void insert(std::uint32_t slot, std::uint32_t) override { list_.push_front(slot); }
  std::uint32_t evict() override {
    const std::uint32_t slot = list_.tail();
    list_.remove(slot);
    return slot;
  }

 private:
  SlotList list_;
};

/// Slots in a ring; the hand passes over those that were hit, once.
class Clock final : public Evictor {
 public:
  explicit Clock(std::size_t slots) : used_(slots, false) {}
  void hit(std::uint32_t slot) override { used_[slot] = true; }
  void insert(std::uint32_t slot, std::uint32_t) override { used_[slot] = false; }
  std::uint32_t evict() override {
    while (used_[hand_]) {
      used_[hand_] = false;
      hand_ = (hand_ + 1) % used_.size();
    }
    const auto slot = static_cast<std::uint32_t>(hand_);
    hand_ = (hand_ + 1) % used_.size();
    return slot;
  }

 private:
  std::vector<bool> used_;
  std::size_t hand_ = 0;
};

/// A queue that new rows enter at the front; the hand goes from back to front and what was hit
/// stays where it is.
class Sieve final : public Evictor {
 public:
  explicit Sieve(std::size_t slots) : list_(slots), used_(slots, false) {}
  void hit(std::uint32_t slot) override { used_[slot] = true; }
  void insert(std::uint32_t slot, std::uint32_t) override {
    used_[slot] = false;
    list_.push_front(slot);
  }
  std::uint32_t evict() override {
    std::uint32_t slot = hand_ == kNone ? list_.tail() : hand_;
    while (used_[slot]) {
      used_[slot] = false;
      slot = list_.before(slot) == kNone ? list_.tail() : list_.before(slot);
    }
    hand_ = list_.before(slot);
    list_.remove(slot);
    return slot;
  }

 private:
  SlotList list_;
  std::vector<bool> used_;
  std::uint32_t hand_ = kNone;
};

/// A small queue for newcomers (a tenth), a main queue, and the ids of what left the small one.
class S3Fifo final : public Evictor {
 public:
  S3Fifo(std::size_t slots, std::size_t rows)
      : small_(slots),
        main_(slots),
        row_(slots, kNone),
        uses_(slots, 0),
        small_size_(slots < 10 ? 1 : slots / 10),
        ghosts_(slots - (slots < 10 ? 1 : slots / 10)),
        left_(rows, 0) {}
  void hit(std::uint32_t slot) override {
    if (uses_[slot] < 3) ++uses_[slot];
  }
  void insert(std::uint32_t slot, std::uint32_t row) override {
    row_[slot] = row;
    uses_[slot] = 0;
    const bool ghost = left_[row] != 0 && departures_ - left_[row] < ghosts_;
    (ghost ? main_ : small_).push_front(slot);
  }
  std::uint32_t evict() override {
    for (;;) {
      if (small_.size() > 0 && (small_.size() >= small_size_ || main_.size() == 0)) {
        const std::uint32_t slot = small_.tail();
        small_.remove(slot);
        if (uses_[slot] <= 1) {
          left_[row_[slot]] = ++departures_;
          return slot;
        }
        uses_[slot] = 0;
        main_.push_front(slot);
      } else {
        const std::uint32_t slot = main_.tail();
        main_.remove(slot);
        if (uses_[slot] == 0) return slot;
        --uses_[slot];
        main_.push_front(slot);
      }
    }
  }

 private:
  SlotList small_, main_;
  std::vector<std::uint32_t> row_;
  std::vector<std::uint8_t> uses_;
  std::size_t small_size_, ghosts_;
  std::vector<std::uint64_t> left_;  ///< by row: which departure from the small queue it was
  std::uint64_t departures_ = 0;
};

}  // namespace foregather
