// Small parts of the disk sampler: a watch, aligned memory, pieces of a pass. Private to it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "parallel/buffer.hpp"

namespace foregather::on_disk {

/// Adds the time since it was made, or since the last call, to one phase after another.
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

inline constexpr std::size_t kPage = 4096;

/// Bytes of `memory` that begin a page.
inline std::byte* aligned(Buffer<std::byte>& memory, std::size_t bytes) {
  memory.reserve_exactly(bytes + kPage);
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (kPage - at % kPage) % kPage;
}

/// Edges [begin, end) of a minibatch, resolved together. In the order buffer it has a count for
/// each window and, behind them, its picks that are not in the cache, by window.
struct Piece {
  std::size_t batch;
  std::int64_t begin, end;
  std::uint32_t* ends;   ///< [window] end in `picks`; before sorting, the number of picks
  std::uint32_t* picks;  ///< edge - begin
  std::int64_t hits;
  std::int64_t hot = 0;  ///< of the hits
};

}  // namespace foregather::on_disk
