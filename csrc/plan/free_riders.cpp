#include "plan/free_riders.hpp"

namespace foregather {

std::size_t drop_lost_riders(Plan& out, std::size_t first_request, std::size_t first_copy) {
  std::size_t from = first_copy, to = first_copy;
  for (std::size_t r = first_request; r < out.request_offset.size(); ++r) {
    const auto end = static_cast<std::size_t>(out.copy_ptr[r + 1]);
    for (; from < end; ++from) {
      const std::uint32_t slot = out.copy_slot[from], position = out.copy_position[from];
      out.copy_row[to] = out.copy_row[from];
      out.copy_position[to] = position;
      out.copy_slot[to] = slot;
      to += static_cast<std::size_t>((slot != kNone) | (position != kNone));
    }
    out.copy_ptr[r + 1] = static_cast<std::int64_t>(to);
  }
  const std::size_t gone = out.copy_row.size() - to;
  out.copy_row.resize(to);
  out.copy_position.resize(to);
  out.copy_slot.resize(to);
  return gone;
}

}  // namespace foregather
