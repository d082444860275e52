#include "plan/block_pass.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/types.hpp"

namespace foregather {
namespace {

constexpr int kMostUses = 255;

std::size_t words_of(const PassShape& shape) {
  return static_cast<std::size_t>((shape.num_blocks() + 63) / 64);
}

}  // namespace

BlockPass::BlockPass(const PassShape& shape) : shape_(shape), num_words_(words_of(shape)) {
  if (shape.num_blocks() >= std::int64_t{1} << 31 || shape.num_slots >= std::int64_t{1} << 31) {
    throw InputError("a file of " + std::to_string(shape.num_blocks()) +
                     " blocks, more than 2^31 - 1; choose a larger block");
  }
  const auto blocks = static_cast<std::size_t>(shape.num_blocks());
  marks_.reserve_exactly(num_words_ + 1);
  place_.reserve_exactly(blocks + 1);
  uses_.reserve_exactly(blocks + 1);
  owner_.reserve_exactly(static_cast<std::size_t>(shape.num_slots) + 1);
  std::memset(uses_.data(), 0, blocks + 1);
  std::memset(marks_.data(), 0, (num_words_ + 1) * sizeof(std::uint64_t));
  std::memset(place_.data(), 0, (blocks + 1) * sizeof(std::uint32_t));
}

std::size_t BlockPass::bytes(const PassShape& shape) {
  const auto blocks = static_cast<std::size_t>(shape.num_blocks());
  return Buffer<std::uint64_t>::bytes_for(words_of(shape) + 1) +
         Buffer<std::uint32_t>::bytes_for(blocks + 1) +
         Buffer<std::uint8_t>::bytes_for(blocks + 1) +
         Buffer<std::uint32_t>::bytes_for(static_cast<std::size_t>(shape.num_slots) + 1);
}

// Counts the marked blocks and takes those in the cache out of the marks. Returns the largest
// count.
std::int64_t BlockPass::count_uses() {
  std::uint8_t most = 0;
  for (std::size_t w = 0; w < num_words_; ++w) {
    std::uint64_t missing = marks_[w];
    for (std::uint64_t word = missing; word != 0; word &= word - 1) {
      const std::size_t block = w * 64 + static_cast<std::size_t>(__builtin_ctzll(word));
      most = std::max(most, ++uses_[block]);
      ++counters_.blocks;
      if ((place_[block] & kCached) == 0) continue;
      ++counters_.block_hits;
      missing &= ~(word & (~word + 1));
    }
    marks_[w] = missing;
  }
  return most;
}

// Of the blocks in the cache and those to be read, the num_slots with the largest counts stay.
void BlockPass::choose_threshold() {
  std::array<std::int64_t, kMostUses + 1> cached{}, missing{};
  for (std::int64_t slot = 0; slot < filled_; ++slot) {
    ++cached[uses_[owner_[static_cast<std::size_t>(slot)]]];
  }
  for (std::size_t w = 0; w < num_words_; ++w) {
    for (std::uint64_t word = marks_[w]; word != 0; word &= word - 1) {
      ++missing[uses_[w * 64 + static_cast<std::size_t>(__builtin_ctzll(word))]];
    }
  }
  std::int64_t room = shape_.num_slots;
  std::size_t at = kMostUses;
  while (at > 0 && cached[at] + missing[at] <= room) {
    room -= cached[at] + missing[at];
    --at;
  }
  threshold_ = static_cast<int>(at);
  const std::int64_t stay = std::min(cached[at], room);
  ties_out_ = cached[at] - stay;
  ties_in_ = std::min(missing[at], room - stay);
  victim_ = 0;
}

std::int64_t BlockPass::plan() {
  ++counters_.passes;
  if (count_uses() >= kMostUses) {
    for (std::int64_t b = 0; b < shape_.num_blocks(); ++b) uses_[static_cast<std::size_t>(b)] /= 2;
  }
  choose_threshold();
  first_.clear();
  std::int64_t last_block = -1, last_place = -1;
  for (std::size_t w = 0; w < num_words_; ++w) {
    for (std::uint64_t word = marks_[w]; word != 0; word &= word - 1) {
      const std::int64_t block = static_cast<std::int64_t>(w) * 64 + __builtin_ctzll(word);
      std::int64_t at = last_place + 1;
      const std::int64_t merged = last_place + (block - last_block);
      const bool near = last_block >= 0 && block - last_block - 1 <= shape_.gap_blocks;
      if (near && merged >> shape_.window_shift == last_place >> shape_.window_shift) at = merged;
      if (at >> shape_.window_shift == static_cast<std::int64_t>(first_.size())) {
        first_.push_back(block);
      }
      place_[static_cast<std::size_t>(block)] = static_cast<std::uint32_t>(at);
      last_block = block;
      last_place = at;
    }
  }
  const auto windows = static_cast<std::int64_t>(first_.size());
  first_.push_back(shape_.num_blocks());
  return windows;
}

void BlockPass::requests(std::int64_t window, WindowRequests& out) {
  out.offset.clear();
  out.length.clear();
  out.destination.clear();
  out.bytes = 0;
  std::int64_t last_block = 0, last_place = 0;
  each_missing(window, [&](std::int64_t block) {
    const std::int64_t place = place_[static_cast<std::size_t>(block)];
    const std::int64_t begin = block << shape_.block_shift;
    const std::int64_t end = std::min(begin + shape_.block_bytes(), shape_.file_bytes);
    const bool follows = !out.offset.empty() && place - last_place == block - last_block;
    last_block = block;
    last_place = place;
    if (follows && end - out.offset.back() <= shape_.request_bytes) {
      out.bytes += end - (out.offset.back() + out.length.back());
      out.length.back() = end - out.offset.back();
      return;
    }
    out.offset.push_back(begin);
    out.length.push_back(end - begin);
    out.destination.push_back((place & (shape_.window_blocks() - 1)) << shape_.block_shift);
    out.bytes += end - begin;
  });
  counters_.requests += static_cast<std::int64_t>(out.offset.size());
  counters_.bytes += out.bytes;
}

// The slot in which an arrived block stays, or -1.
std::int64_t BlockPass::admit(std::int64_t block) {
  const int uses = uses_[static_cast<std::size_t>(block)];
  if (uses < threshold_ || (uses == threshold_ && ties_in_ == 0)) return -1;
  if (uses == threshold_) --ties_in_;
  const std::int64_t slot = next_victim();
  if (slot < 0) return -1;
  std::uint32_t& owner = owner_[static_cast<std::size_t>(slot)];
  if (owner != kFree) place_[owner] = 0;
  owner = static_cast<std::uint32_t>(block);
  place_[static_cast<std::size_t>(block)] = kCached | static_cast<std::uint32_t>(slot);
  return slot;
}

// A free slot, or the next one whose block is not among those that stay.
std::int64_t BlockPass::next_victim() {
  if (filled_ < shape_.num_slots) {
    owner_[static_cast<std::size_t>(filled_)] = kFree;
    return filled_++;
  }
  while (victim_ < shape_.num_slots) {
    const std::int64_t slot = victim_++;
    const int uses = uses_[owner_[static_cast<std::size_t>(slot)]];
    if (uses < threshold_) return slot;
    if (uses == threshold_ && ties_out_ > 0) {
      --ties_out_;
      return slot;
    }
  }
  return -1;
}

void BlockPass::finish() { std::memset(marks_.data(), 0, num_words_ * sizeof(std::uint64_t)); }

void BlockPass::forget() {
  finish();
  std::memset(place_.data(), 0,
              static_cast<std::size_t>(shape_.num_blocks()) * sizeof(std::uint32_t));
  filled_ = 0;
}

}  // namespace foregather
