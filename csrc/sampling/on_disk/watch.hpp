// Watch: seconds of one phase after another; aligned: memory that files are read into. Private to
// the disk sampler.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "parallel/buffer.hpp"

namespace foregather {

// Adds the time since it was made, or since the last call, to one phase after another.
class Watch {
 public:
  void operator()(double& phase) {
    const auto now = std::chrono::steady_clock::now();
    phase += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Memory for `bytes` bytes that begins with a page.
inline std::byte* aligned(Buffer<std::byte>& memory, std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  memory.reserve_exactly(bytes + kPage);
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (kPage - at % kPage) % kPage;
}

}  // namespace foregather
