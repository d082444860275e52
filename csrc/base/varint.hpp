// Varint: whole numbers in as few bytes as they need, for what travels between ranks.
//
// Seven bits per byte, lowest first; the high bit says that more follow. Numbers below 128 take one
// byte, any 64-bit number at most ten. Readers trust nothing: the end of the bytes is checked, and
// a number that does not fit into 64 bits is refused.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace foregather {

inline void put_varint(std::vector<std::uint8_t>& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<std::uint8_t>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<std::uint8_t>(value));
}

/// Reads numbers and raw bytes one after the other.
class VarintReader {
 public:
  explicit VarintReader(std::span<const std::uint8_t> bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; at_ < end_ && shift < 64; shift += 7) {
      const std::uint8_t byte = *at_++;
      if (shift == 63 && byte > 1) break;
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    throw InputError("a message between ranks ends inside a number or is damaged");
  }

  /// A number of at most `most`.
  std::uint64_t number(std::uint64_t most) {
    const std::uint64_t value = number();
    if (value > most) throw InputError("a message between ranks holds a number out of range");
    return value;
  }

  std::span<const std::uint8_t> raw(std::size_t count) {
    if (count > left()) throw InputError("a message between ranks is shorter than it says");
    const std::span<const std::uint8_t> bytes(at_, count);
    at_ += count;
    return bytes;
  }

  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

}  // namespace foregather
