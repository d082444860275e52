// Hash: XXH64, the checksum of every array on disk.
//
// The algorithm is Yann Collet's published XXH64 with seed 0 unless said otherwise, so any xxHash
// tool can check our files. It detects corruption; it is not a defence against an adversary.
// Digests are the same on every machine (words are read little-endian).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace foregather {

/// Incremental XXH64: update with any split of the bytes gives the digest of the whole.
class Xxh64 {
 public:
  explicit Xxh64(std::uint64_t seed = 0);
  void update(std::span<const std::byte> bytes);
  std::uint64_t digest() const;

 private:
  std::uint64_t seed_;
  std::uint64_t lane_[4];
  std::uint64_t length_ = 0;
  std::byte tail_[32];           ///< bytes not yet in a full 32-byte stripe
  std::size_t tail_length_ = 0;  ///< always < 32
};

/// XXH64 of one buffer.
std::uint64_t xxh64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

}  // namespace foregather
