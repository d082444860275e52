// Golden: digests of results that must have the same bits on every platform.
//
// They were made on x86-64 by gcc. A processor, compiler or library that rounds, orders or counts
// otherwise gives others; so these tests are what a build for another platform must pass.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"

namespace foregather {

class Digest {  ///< of arrays, each with its length
 public:
  template <typename T>
  void add(const T* data, std::int64_t count) {
    const auto length = static_cast<std::uint64_t>(count);
    hash_.update(std::as_bytes(std::span(&length, 1)));
    hash_.update(std::as_bytes(std::span(data, length)));
  }
  template <typename T>
  void add(const std::vector<T>& values) {
    add(values.data(), static_cast<std::int64_t>(values.size()));
  }
  std::uint64_t value() const { return hash_.digest(); }

 private:
  Xxh64 hash_;
};

inline int failures = 0;

/// Says what differs; main() returns `failures`.
inline void expect(const std::string& name, const Digest& made, std::uint64_t golden) {
  if (made.value() == golden) return;
  std::fprintf(stderr, "%s: 0x%016" PRIx64 ", expected 0x%016" PRIx64 "\n", name.c_str(),
               made.value(), golden);
  ++failures;
}

}  // namespace foregather
