#include "base/hash.hpp"

#include <bit>
#include <cstring>

namespace foregather {
namespace {

constexpr std::uint64_t kP1 = 0x9E3779B185EBCA87ull;
constexpr std::uint64_t kP2 = 0xC2B2AE3D27D4EB4Full;
constexpr std::uint64_t kP3 = 0x165667B19E3779F9ull;
constexpr std::uint64_t kP4 = 0x85EBCA77C2B2AE63ull;
constexpr std::uint64_t kP5 = 0x27D4EB2F165667C5ull;

static_assert(std::endian::native == std::endian::little, "words are read little-endian");

template <typename Word>
Word load(const std::byte* p) {
  Word word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kP2, 31) * kP1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * kP1 + kP4;
}

// Consumes whole 32-byte stripes and returns where it stopped.
const std::byte* stripes(std::uint64_t lane[4], const std::byte* p, const std::byte* end) {
  std::uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];
  for (; end - p >= 32; p += 32) {
    a = round(a, load<std::uint64_t>(p));
    b = round(b, load<std::uint64_t>(p + 8));
    c = round(c, load<std::uint64_t>(p + 16));
    d = round(d, load<std::uint64_t>(p + 24));
  }
  lane[0] = a, lane[1] = b, lane[2] = c, lane[3] = d;
  return p;
}

std::uint64_t join(const std::uint64_t lane[4]) {
  std::uint64_t hash = std::rotl(lane[0], 1) + std::rotl(lane[1], 7) + std::rotl(lane[2], 12) +
                       std::rotl(lane[3], 18);
  for (int i = 0; i < 4; ++i) hash = merge(hash, lane[i]);
  return hash;
}

// Adds the last bytes, fewer than 32, and mixes.
std::uint64_t finish(std::uint64_t hash, const std::byte* p, const std::byte* end) {
  for (; end - p >= 8; p += 8) {
    hash = std::rotl(hash ^ round(0, load<std::uint64_t>(p)), 27) * kP1 + kP4;
  }
  if (end - p >= 4) {
    hash = std::rotl(hash ^ (load<std::uint32_t>(p) * kP1), 23) * kP2 + kP3;
    p += 4;
  }
  for (; p < end; ++p) {
    hash = std::rotl(hash ^ (static_cast<std::uint64_t>(*p) * kP5), 11) * kP1;
  }
  hash = (hash ^ (hash >> 33)) * kP2;
  hash = (hash ^ (hash >> 29)) * kP3;
  return hash ^ (hash >> 32);
}

}  // namespace

Xxh64::Xxh64(std::uint64_t seed)
    : seed_(seed), lane_{seed + kP1 + kP2, seed + kP2, seed, seed - kP1} {}

void Xxh64::update(std::span<const std::byte> bytes) {
  const std::byte* p = bytes.data();
  const std::byte* end = p + bytes.size();
  length_ += bytes.size();
  if (tail_length_ > 0) {
    const std::size_t room = 32 - tail_length_;
    const std::size_t taken = bytes.size() < room ? bytes.size() : room;
    if (taken > 0) std::memcpy(tail_ + tail_length_, p, taken);
    tail_length_ += taken;
    p += taken;
    if (tail_length_ < 32) return;
    stripes(lane_, tail_, tail_ + 32);
    tail_length_ = 0;
  }
  p = stripes(lane_, p, end);
  tail_length_ = static_cast<std::size_t>(end - p);
  if (tail_length_ > 0) std::memcpy(tail_, p, tail_length_);
}

std::uint64_t Xxh64::digest() const {
  const std::uint64_t hash = length_ >= 32 ? join(lane_) : seed_ + kP5;
  return finish(hash + length_, tail_, tail_ + tail_length_);
}

std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed) {
  const std::byte* p = bytes.data();
  const std::byte* const end = p + bytes.size();
  std::uint64_t hash = seed + kP5;
  if (bytes.size() >= 32) {
    std::uint64_t lane[4] = {seed + kP1 + kP2, seed + kP2, seed, seed - kP1};
    p = stripes(lane, p, end);
    hash = join(lane);
  }
  return finish(hash + bytes.size(), p, end);
}

}  // namespace foregather
