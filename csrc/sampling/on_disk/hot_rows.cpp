#include "sampling/on_disk/hot_rows.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/types.hpp"

namespace foregather {
namespace {

constexpr std::int64_t kPage = 4096;

}  // namespace

template <typename Id>
HotRows<Id>::HotRows(std::int64_t num_nodes, std::size_t memory) {
  const std::size_t tables = table_bytes(num_nodes);
  room_ = memory < 2 * tables ? 0 : memory - tables;
  if (room_ == 0) return;
  bits_.assign(static_cast<std::size_t>(num_nodes) / 64 + 1, 0);
  ranks_.assign(bits_.size() / 8 + 1, 0);
}

template <typename Id>
void HotRows<Id>::clear() {
  std::fill(bits_.begin(), bits_.end(), 0);
  rows_.clear();
  starts_.clear();
}

template <typename Id>
void HotRows<Id>::choose(std::span<const std::int64_t> rows, const RowIndex& index,
                         std::size_t longest) {
  clear();
  std::size_t used = 0;
  for (std::int64_t row : rows) {
    if (row < 0 || row >= index.num_nodes()) {
      throw InputError("row " + std::to_string(row) + " is to be held; expected rows 0 to " +
                       std::to_string(index.num_nodes() - 1));
    }
    const std::size_t bytes = index.row(row).degree * sizeof(Id);
    std::uint64_t& word = bits_[static_cast<std::size_t>(row) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (row & 63);
    if (bytes == 0 || bytes > longest || (word & bit) != 0) continue;
    if (used + bytes + 16 > room_) break;  // 8 for the start, 8 for the row while filling
    used += bytes + 16;
    word |= bit;
    rows_.push_back(row);
  }
  std::sort(rows_.begin(), rows_.end());
}

template <typename Id>
void HotRows<Id>::place(const RowIndex& index) {
  starts_.reserve(rows_.size() + 1);
  std::int64_t total = 0;
  for (std::int64_t row : rows_) {
    starts_.push_back(total);
    total += index.row(row).degree;
  }
  ids_.reserve_exactly(static_cast<std::size_t>(total));
  std::uint32_t before = 0;
  for (std::size_t w = 0; w < bits_.size(); ++w) {
    if (w % 8 == 0) ranks_[w / 8] = before;
    before += static_cast<std::uint32_t>(std::popcount(bits_[w]));
  }
}

// The requests for the lists from rows_[at] on, as many as `most` bytes hold; returns the end of
// them. `places` are the first bytes of the lists in staging.
template <typename Id>
std::size_t HotRows<Id>::ask(std::size_t at, const RowIndex& index, const HotFile& file,
                             std::int64_t most, WindowRequests& out,
                             std::vector<std::int64_t>& places) const {
  const auto width = static_cast<std::int64_t>(sizeof(Id));
  out = {};
  places.clear();
  for (; at < rows_.size(); ++at) {
    const auto [start, degree] = index.row(rows_[at]);
    const std::int64_t from = file.payload + start * width, to = from + degree * width;
    const std::int64_t lo = from / kPage * kPage;
    const std::int64_t hi = std::min((to + kPage - 1) / kPage * kPage, file.bytes);
    const std::int64_t last = out.offset.empty() ? -1 : out.offset.back() + out.length.back();
    if (!out.offset.empty() && lo <= last + file.gap) {
      const std::int64_t more = std::max<std::int64_t>(hi - last, 0);
      if (out.bytes + more > most) break;
      out.length.back() += more;
      out.bytes += more;
    } else {
      if (out.bytes + hi - lo > most) break;
      out.offset.push_back(lo);
      out.length.push_back(hi - lo);
      out.destination.push_back(out.bytes);
      out.bytes += hi - lo;
    }
    places.push_back(out.destination.back() + from - out.offset.back());
  }
  return at;
}

template <typename Id>
HotReads HotRows<Id>::fill(std::span<const std::int64_t> rows, const RowIndex& index,
                           const HotFile& file, BlockReader& reader, std::span<std::byte> staging) {
  HotReads done;
  if (room_ == 0) return done;
  try {
    choose(rows, index, staging.size() / 2);
    place(index);
    WindowRequests asked;
    std::vector<std::int64_t> places;
    for (std::size_t at = 0; at < rows_.size();) {
      const auto most = static_cast<std::int64_t>(staging.size());
      const std::size_t end = ask(at, index, file, most, asked, places);
      reader.read({asked.offset, asked.length, asked.destination}, staging);
      for (std::size_t i = at; i < end; ++i) {
        const std::size_t bytes = index.row(rows_[i]).degree * sizeof(Id);
        std::memcpy(ids_.data() + starts_[i], staging.data() + places[i - at], bytes);
        done.held += static_cast<std::int64_t>(bytes);
      }
      done.requests += static_cast<std::int64_t>(asked.offset.size());
      done.bytes += asked.bytes;
      at = end;
    }
    done.rows = static_cast<std::int64_t>(rows_.size());
    std::vector<std::int64_t>().swap(rows_);
  } catch (...) {
    clear();
    throw;
  }
  return done;
}

template class HotRows<std::uint32_t>;
template class HotRows<std::int64_t>;

}  // namespace foregather
