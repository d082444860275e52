// Work: the state of a disk sampler, and a minibatch of it layer by layer: draw, read, renumber.
//
// A layer is drawn for all minibatches, then the ids at the places drawn are read in passes over
// blocks, in windows, each as soon as it is there, and then renumbered. Lists that are held (hot
// rows) and blocks in the cache need no reading. Private to disk_sample.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "base/types.hpp"
#include "io/reading/window_reader.hpp"
#include "parallel/pool.hpp"
#include "sampling/on_disk/disk_layer.hpp"
#include "sampling/on_disk/disk_parts.hpp"
#include "sampling/on_disk/disk_sample.hpp"
#include "sampling/on_disk/hot_picks.hpp"
#include "sampling/on_disk/row_search.hpp"

namespace foregather {

using on_disk::aligned;
using on_disk::Piece;
using on_disk::Watch;

inline constexpr std::int64_t kPieceEdges = std::int64_t{256}
                                            << 10;  // small enough to share out evenly
inline constexpr std::int64_t kWorthThread = 8192;  // picks that are worth a thread

template <typename Id>
class DiskSampler<Id>::Work {
 public:
  Work(std::unique_ptr<BlockReader> from, const DiskShape& given, std::size_t memory)
      : shares(checked(given, memory)),
        index(given.num_nodes, given.num_edges),
        reader(std::move(from)),
        pass(shares.pass),
        hot(given.num_nodes, shares.hot),
        shape_(given) {
    const auto window =
        static_cast<std::size_t>(shares.pass.window_blocks() << shares.pass.block_shift);
    staging_ = {aligned(staging_memory_, 2 * window), 2 * window};
    const auto slots = static_cast<std::size_t>(shares.pass.num_slots);
    if (slots > 0) cache_ = aligned(cache_memory_, slots << shares.pass.block_shift);
    order_.reserve_exactly(shares.order / sizeof(std::uint32_t));
    room_ = static_cast<std::int64_t>(shares.order / sizeof(std::uint32_t));
    reader->attach(staging_);
  }

  void sample(const NeighborRule& rule, std::span<const std::int64_t> seeds,
              std::span<const std::int64_t> ptr, const ExcludedEdges& excluded, int threads,
              const std::function<void()>& check) {
    threads_ = threads;
    scratch_.resize(static_cast<std::size_t>(threads));
    WindowReader windows(*reader, staging_);
    find_gaps(excluded, windows, check);
    const auto count = static_cast<std::int64_t>(batches.size());
    renumbering([&](const Growing<Id>& batch) { return seeds_of(batch, ptr).second; },
                [&](Growing<Id>& batch, LocalIds<Id>& ids) {
                  const auto [from, size] = seeds_of(batch, ptr);
                  begin_minibatch(
                      batch,
                      seeds.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(size)),
                      index.num_nodes(), ids);
                });
    for (std::size_t layer = 0; layer < rule.fanouts.size(); ++layer) {
      Watch watch;
      parallel_tasks(count, threads, [&](std::int64_t i, int worker) {
        Growing<Id>& batch = batches[static_cast<std::size_t>(i)];
        draw_layer(batch, index, rule.replace, rule.fanouts[layer], layer_key(batch.key, layer),
                   scratch_[static_cast<std::size_t>(worker)]);
      });
      watch(counted.draw);
      check();
      resolve_layer(windows, check);
      watch = Watch();
      renumbering(
          [](const Growing<Id>& batch) { return batch.known + batch.edges + 1; },
          [&](Growing<Id>& batch, LocalIds<Id>& ids) { renumber_layer(batch, rule.once, ids); });
      watch(counted.renumber);
      check();
    }
  }

  DiskShares shares;
  RowIndex index;
  std::unique_ptr<BlockReader> reader;
  BlockPass pass;
  HotRows<Id> hot;
  DiskCounters counted;
  std::vector<Growing<Id>> batches;

 private:
  static DiskShares checked(const DiskShape& shape, std::size_t memory) {
    const DiskShares shares = divide(shape, memory);
    if (memory < shares.least) {
      throw BudgetError("memory is " + std::to_string(memory) +
                        " bytes, but sampling this topology from disk takes at least " +
                        std::to_string(shares.least) + " bytes; give it that or more");
    }
    return shares;
  }

  std::pair<std::int64_t, std::int64_t> seeds_of(const Growing<Id>& batch,
                                                 std::span<const std::int64_t> ptr) const {
    const auto i = static_cast<std::size_t>(&batch - batches.data());
    return {ptr[i], ptr[i + 1] - ptr[i]};
  }

  // Finds what minibatches leave out of their rows: by bisection over blocks, of all rows at once.
  void find_gaps(const ExcludedEdges& excluded, WindowReader& windows,
                 const std::function<void()>& check) {
    if (excluded.ptr.empty()) return;
    RowSearch<Id> search(excluded, index, shape_.block_bytes);
    SampleArrays<Id> probes;
    Growing<Id> asking;
    asking.out = &probes;
    std::vector<Growing<Id>> held(1, asking);
    held.swap(batches);
    searching_ = &search;
    while ((batches[0].edges = search.next(probes.edge)) > 0) resolve_layer(windows, check);
    searching_ = nullptr;
    held.swap(batches);
    for (std::size_t i = 0; i < batches.size(); ++i) batches[i].gaps = search.gaps(i);
  }

  // Runs body(batch, table) for all minibatches, on as many threads as there is room for tables.
  template <typename Most, typename Body>
  void renumbering(Most&& most, Body&& body) {
    std::int64_t largest = 0;
    for (const auto& batch : batches) largest = std::max(largest, most(batch));
    const std::size_t need = LocalIds<Id>::bytes_for(largest);
    if (need > shares.ids) {
      throw BudgetError("a minibatch takes " + std::to_string(need) +
                        " bytes to renumber; give the topology at least " +
                        std::to_string(least_for_ids(shares, need)) +
                        " bytes of memory, or use smaller minibatches or fan-outs");
    }
    const std::size_t workers =
        std::min(static_cast<std::size_t>(threads_), std::max<std::size_t>(shares.ids / need, 1));
    tables_.resize(std::max(tables_.size(), workers));
    std::size_t total = 0;
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      total += i < workers ? std::max(tables_[i].bytes(), need) : tables_[i].bytes();
    }
    if (total > shares.ids) {
      for (auto& table : tables_) table.release();
    }
    parallel_tasks(static_cast<std::int64_t>(batches.size()), static_cast<int>(workers),
                   [&](std::int64_t i, int worker) {
                     body(batches[static_cast<std::size_t>(i)],
                          tables_[static_cast<std::size_t>(worker)]);
                   });
  }

  // Reads the ids of all picks of a layer: in one pass, or in as many as the order buffer asks for.
  void resolve_layer(WindowReader& windows, const std::function<void()>& check) {
    const std::int64_t counts =
        (shares.pass.num_blocks() >> shares.pass.window_shift) + 2;  // windows at most, and one
    std::int64_t used = 0;
    for (std::size_t b = 0; b < batches.size(); ++b) {
      const std::int64_t last = batches[b].drawn + batches[b].edges;
      for (std::int64_t at = batches[b].drawn; at < last;) {
        if (room_ - used < 2 * counts) {
          run_pass(windows, check);
          used = 0;
        }
        const std::int64_t size = std::min({last - at, room_ - used - counts, kPieceEdges});
        std::uint32_t* place = order_.data() + used;
        pieces_.push_back({b, at, at + size, place, place + counts, 0, 0});
        used += counts + size;
        at += size;
      }
    }
    if (!pieces_.empty()) run_pass(windows, check);
  }

  void run_pass(WindowReader& windows, const std::function<void()>& check) {
    Watch watch;
    for_pieces(threads_, [&](Piece& piece) { mark(piece); });
    watch(counted.mark);
    const std::int64_t count = pass.plan();
    auto post = [&](std::int64_t window) {
      if (window >= count) return;
      pass.requests(window, windows.next());
      windows.post();
    };
    post(0);
    post(1);
    watch(counted.plan);
    for_pieces(threads_, [&](Piece& piece) { sort(piece, count); });
    watch(counted.sort);
    for (std::int64_t window = 0; window < count; ++window) {
      const std::byte* bytes = windows.wait();
      watch(counted.wait);
      resolve(window, bytes);
      const int shift = shares.pass.block_shift;
      const std::int64_t places = shares.pass.window_blocks();
      pass.keep(window, [&](std::uint32_t place, std::int64_t slot) {
        std::memcpy(cache_ + (slot << shift), bytes + ((place & (places - 1)) << shift),
                    std::size_t{1} << shift);
      });
      windows.done();
      post(window + 2);
      watch(counted.resolve);
      check();
    }
    pass.finish();
    for_pieces(threads_, [&](const Piece& piece) {
      if (piece.hot > 0) restore_hot(batches[piece.batch], piece.begin, piece.end);
    });
    for (const Piece& piece : pieces_) {
      if (searching_ != nullptr) break;  // nothing was picked
      counted.picks += piece.end - piece.begin;
      counted.hits += piece.hits;
      counted.hot_hits += piece.hot;
    }
    pieces_.clear();
  }

  template <typename Body>
  void for_pieces(int threads, Body&& body) {
    parallel_tasks(static_cast<std::int64_t>(pieces_.size()), threads,
                   [&](std::int64_t i, int) { body(pieces_[static_cast<std::size_t>(i)]); });
  }

  std::int64_t byte_of(std::int64_t edge) const {
    return shape_.payload + edge * static_cast<std::int64_t>(sizeof(Id));
  }

  const std::int64_t* edges_of(const Piece& piece) const {
    return batches[piece.batch].out->edge.data() + piece.begin;
  }
  // Resolves picks from held lists; the others have their blocks marked.
  void mark(Piece& piece) {
    const std::int64_t* edge = edges_of(piece);
    if (!hot.empty() && searching_ == nullptr) {
      piece.hot = take_hot(batches[piece.batch], piece.begin, piece.end, hot, index,
                           [&](std::int64_t e, Id id) { put(batches[piece.batch], e, id); });
      piece.hits += piece.hot;
    }
    for (std::int64_t i = 0; i < piece.end - piece.begin; ++i) {
      if (edge[i] >= 0) pass.mark(byte_of(edge[i]) >> shares.pass.block_shift);
    }
  }

  // What the bytes at the place of an edge are for: its source, or a step of the search.
  void take(const Growing<Id>& batch, std::int64_t edge, const std::byte* at) const {
    if (searching_ != nullptr) return searching_->narrow(edge, shape_.payload, at);
    Id id;
    std::memcpy(&id, at, sizeof id);
    put(batch, edge, id);
  }

  void put(const Growing<Id>& batch, std::int64_t edge, Id id) const {
    if (static_cast<std::uint64_t>(id) >= static_cast<std::uint64_t>(index.num_nodes())) {
      const auto at = batch.out->edge[static_cast<std::size_t>(edge)];
      throw FormatError(reader->name() + " holds node " + std::to_string(id) + " at position " +
                        std::to_string(at) + ", but the graph has " +
                        std::to_string(index.num_nodes()) +
                        " nodes; the file is damaged, foregather verify says where");
    }
    batch.pending(edge) = id;
  }

  // Resolves the picks of a piece that are in the cache and orders the others by window.
  void sort(Piece& piece, std::int64_t windows) {
    const Growing<Id>& batch = batches[piece.batch];
    const std::int64_t* edge = edges_of(piece);
    const std::int64_t size = piece.end - piece.begin;
    const int shift = shares.pass.block_shift, window_shift = shares.pass.window_shift;
    const std::int64_t mask = shares.pass.block_bytes() - 1;
    std::fill(piece.ends, piece.ends + windows + 1, 0u);
    constexpr std::int64_t kTogether = 64;
    std::array<std::pair<std::int64_t, const std::byte*>, kTogether> found;
    for (std::int64_t from = 0; from < size; from += kTogether) {
      std::size_t hits = 0;
      for (std::int64_t i = from; i < std::min(from + kTogether, size); ++i) {
        if (edge[i] < 0) continue;  // from a held list
        const std::int64_t byte = byte_of(edge[i]);
        const std::uint32_t place = pass.place(byte >> shift);
        if ((place & BlockPass::kCached) == 0) {
          ++piece.ends[(place >> window_shift) + 1];
          continue;
        }
        const std::size_t slot = place & ~BlockPass::kCached;
        const std::byte* at = cache_ + (slot << shift) + (byte & mask);
        __builtin_prefetch(at);
        found[hits++] = {piece.begin + i, at};
      }
      for (std::size_t i = 0; i < hits; ++i) {
        take(batch, found[i].first, found[i].second);
      }
      piece.hits += static_cast<std::int64_t>(hits);
    }
    if (piece.hits == size) return;
    for (std::int64_t w = 0; w < windows; ++w) piece.ends[w + 1] += piece.ends[w];
    for (std::int64_t i = 0; i < size; ++i) {  // ends[w] moves from the begin of w to its end
      if (edge[i] < 0) continue;
      const std::uint32_t place = pass.place(byte_of(edge[i]) >> shift);
      if ((place & BlockPass::kCached) != 0) continue;
      piece.picks[piece.ends[place >> window_shift]++] = static_cast<std::uint32_t>(i);
    }
  }

  // Resolves the picks of all pieces that lie in a window.
  void resolve(std::int64_t window, const std::byte* bytes) {
    std::int64_t picks = 0;
    for (const Piece& piece : pieces_) {
      picks += piece.ends[window] - (window > 0 ? piece.ends[window - 1] : 0);
    }
    const int threads =
        static_cast<int>(std::clamp<std::int64_t>(picks / kWorthThread, 1, threads_));
    const int shift = shares.pass.block_shift;
    const std::int64_t mask = shares.pass.block_bytes() - 1;
    const std::int64_t places = shares.pass.window_blocks() - 1;
    for_pieces(threads, [&](const Piece& piece) {
      const Growing<Id>& batch = batches[piece.batch];
      const std::int64_t* edge = edges_of(piece);
      auto address = [&](std::uint32_t pick) {
        const std::int64_t byte = byte_of(edge[pick]);
        return bytes + ((pass.place(byte >> shift) & places) << shift) + (byte & mask);
      };
      const std::uint32_t begin = window > 0 ? piece.ends[window - 1] : 0, end = piece.ends[window];
      constexpr std::uint32_t kAhead = 16;
      for (std::uint32_t i = begin; i < end; ++i) {
        if (i + kAhead < end) __builtin_prefetch(address(piece.picks[i + kAhead]));
        take(batch, piece.begin + piece.picks[i], address(piece.picks[i]));
      }
    });
  }

 public:
  void clear() {
    pieces_.clear();
    searching_ = nullptr;
  }
  void hold(std::span<const std::int64_t> rows) {
    index.finish();
    const HotReads read = hot.fill(
        rows, index, {shape_.payload, shape_.file_bytes, shape_.gap_bytes}, *reader, staging_);
    counted.hot = {counted.hot.requests + read.requests, counted.hot.bytes + read.bytes, read.rows,
                   read.held};
  }

 private:
  DiskShape shape_;
  Buffer<std::byte> staging_memory_, cache_memory_;
  std::span<std::byte> staging_;
  std::byte* cache_ = nullptr;
  Buffer<std::uint32_t> order_;
  std::int64_t room_ = 0;  ///< of the order buffer
  std::vector<Piece> pieces_;
  std::vector<LocalIds<Id>> tables_;
  std::vector<DrawScratch> scratch_;
  RowSearch<Id>* searching_ = nullptr;  ///< while rows are searched for what is left out
  int threads_ = 1;
};

}  // namespace foregather
