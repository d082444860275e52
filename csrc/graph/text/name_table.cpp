#include "graph/text/name_table.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

namespace foregather {
namespace {

constexpr int kFirstBits = 4;
constexpr std::size_t kMostSteps = 512;      // from a key's home to its slot
constexpr std::size_t kMargin = kMostSteps;  // slots after the last home
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kLeastBlock = 1 << 8;
constexpr std::size_t kMostBlock = 1 << 20;
constexpr std::size_t kLanes = 16;

std::size_t length_of(const std::uint8_t* record) {
  std::uint32_t length;
  std::memcpy(&length, record, kLengthBytes);
  return length;
}

// How many slots of a table are used before it grows.
std::size_t limit(int bits) { return (std::size_t{1} << bits) / 8 * 5; }

}  // namespace

NameTable::NameTable(std::size_t budget) : budget_(budget) { rebuild(kFirstBits); }

// The slot of `key`, or the empty one where it belongs; null where that is too far from its home.
NameTable::Slot* NameTable::find(std::uint64_t key) {
  Slot* slot = &slots_[home(key)];
  for (std::size_t step = 0; step < kMostSteps; ++step, ++slot) {
    if (slot->record == nullptr || slot->key == key) return slot;
  }
  return nullptr;
}

std::size_t NameTable::add(std::span<const std::uint8_t> data,
                           std::span<const std::int64_t> offsets,
                           std::span<const std::uint64_t> keys, std::size_t first) {
  if (offsets.size() != keys.size() + 1 || first > keys.size()) {
    throw InputError("names got " + std::to_string(offsets.size()) + " offsets for " +
                     std::to_string(keys.size()) + " keys, expected one more than keys");
  }
  if (sorted_) throw InputError("names cannot be added while they are handed out");
  const auto size = static_cast<std::int64_t>(data.size());
  for (std::size_t at = first; at < keys.size(); at += kLanes) {
    const std::size_t end = std::min(at + kLanes, keys.size());
    // Two rounds ahead of the work, so that the cache misses of the lanes overlap.
    for (std::size_t i = at; i < end; ++i) __builtin_prefetch(&slots_[home(keys[i])]);
    for (std::size_t i = at; i < end; ++i) {
      const Slot& slot = slots_[home(keys[i])];
      if (slot.key == keys[i]) __builtin_prefetch(slot.record);
    }
    for (std::size_t i = at; i < end; ++i) {
      if (offsets[i] < 0 || offsets[i + 1] < offsets[i] || offsets[i + 1] > size) {
        throw InputError("string " + std::to_string(i) + " lies outside its buffer");
      }
      const std::uint8_t* text = data.data() + offsets[i];
      const auto length = static_cast<std::size_t>(offsets[i + 1] - offsets[i]);
      Slot* slot = find(keys[i]);
      if (slot != nullptr && slot->record != nullptr) {
        if (length_of(slot->record) == length &&
            (length == 0 || !std::memcmp(slot->record + kLengthBytes, text, length))) {
          continue;
        }
        throw InputError(
            "two different string ids have the same 64-bit key; rename one, or number the nodes "
            "yourself");
      }
      if (count_ == limit(64 - shift_)) {
        if (!grow()) return i;
        slot = find(keys[i]);
      }
      if (slot == nullptr) return i;  // an empty table always has room near every home
      const std::uint8_t* record = keep(text, length);
      if (record == nullptr) return i;
      *slot = {keys[i], record};
      ++count_;
    }
  }
  return keys.size();
}

const std::uint8_t* NameTable::keep(const std::uint8_t* text, std::size_t length) {
  if (length > std::numeric_limits<std::uint32_t>::max()) {
    throw InputError("an id has " + std::to_string(length) + " bytes, expected less than 2^32");
  }
  const std::size_t needed = kLengthBytes + length;
  if (needed > room_) {
    const std::size_t block = std::max(needed, std::clamp(budget_ / 64, kLeastBlock, kMostBlock));
    if (count_ > 0 && bytes() + block > budget_) return nullptr;
    blocks_.push_back(std::make_unique_for_overwrite<std::uint8_t[]>(block));
    text_bytes_ += block;
    free_ = blocks_.back().get();
    room_ = block;
  }
  std::uint8_t* record = free_;
  const auto stored = static_cast<std::uint32_t>(length);
  std::memcpy(record, &stored, kLengthBytes);
  if (length > 0) std::memcpy(record + kLengthBytes, text, length);
  free_ += needed;
  room_ -= needed;
  return record;
}

// Twice the homes, if old and new slots fit in the budget together.
bool NameTable::grow() {
  const int bits = 64 - shift_ + 1;
  const std::size_t more = ((std::size_t{1} << bits) + kMargin) * sizeof(Slot);
  if (bytes() + more > budget_) return false;
  rebuild(bits);
  return true;
}

void NameTable::rebuild(int bits) {
  std::vector<Slot> old((std::size_t{1} << bits) + kMargin, Slot{0, nullptr});
  old.swap(slots_);
  shift_ = 64 - bits;
  for (const Slot& slot : old) {
    if (slot.record == nullptr) continue;
    // Never null: homes are twice as far apart as before and names come in the order of their old
    // slots, so the names before this one reach no further beyond its home than they did.
    *find(slot.key) = slot;
  }
}

void NameTable::sort() {
  if (sorted_) return;
  sorted_ = true;
  const auto by_key = [](const Slot& a, const Slot& b) { return a.key < b.key; };
  for (auto first = slots_.begin(); first != slots_.end();) {
    if (first->record == nullptr) {
      ++first;
      continue;
    }
    auto last = first;
    while (last != slots_.end() && last->record != nullptr) ++last;
    std::sort(first, last, by_key);
    first = last;
  }
}

void NameTable::skip_empty() {
  while (at_ < slots_.size() && slots_[at_].record == nullptr) ++at_;
}

std::size_t NameTable::next_length() {
  sort();
  skip_empty();
  return at_ < slots_.size() ? length_of(slots_[at_].record) : 0;
}

NameTable::Taken NameTable::next(std::span<std::uint64_t> keys, std::span<std::int64_t> lengths,
                                 std::span<std::uint8_t> text) {
  if (keys.size() != lengths.size()) throw InputError("keys and lengths differ in number");
  sort();
  constexpr std::size_t kAhead = 16;  // slots; most records are far from each other
  Taken taken;
  for (skip_empty(); at_ < slots_.size() && taken.names < keys.size(); skip_empty()) {
    if (at_ + kAhead < slots_.size()) __builtin_prefetch(slots_[at_ + kAhead].record);
    const Slot& slot = slots_[at_];
    const std::size_t length = length_of(slot.record);
    if (length > text.size() - taken.bytes) break;
    if (length > 0) std::memcpy(&text[taken.bytes], slot.record + kLengthBytes, length);
    keys[taken.names] = slot.key;
    lengths[taken.names] = static_cast<std::int64_t>(length);
    ++taken.names;
    taken.bytes += length;
    ++at_;
  }
  return taken;
}

void NameTable::clear() {
  blocks_.clear();
  blocks_.shrink_to_fit();
  free_ = nullptr;
  room_ = text_bytes_ = count_ = at_ = 0;
  sorted_ = false;
  slots_ = {};
  rebuild(kFirstBits);
}

}  // namespace foregather
