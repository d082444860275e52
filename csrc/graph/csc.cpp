#include "graph/csc.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/csc_items.hpp"
#include "parallel/pool.hpp"

namespace foregather {
namespace {

using namespace csc;

template <typename Id, typename Item>
class Builder {
 public:
  Builder(const Layout& layout, std::span<const Id> source, std::span<const Id> target,
          std::int64_t* indptr, Id* indices, std::int64_t* order)
      : layout_(layout),
        source_(source),
        target_(target),
        indptr_(indptr),
        indices_(indices),
        order_(order) {}

  void run() {
    count();
    if (layout_.direct) return place_directly();
    items_ = make_items<Item>(layout_.num_edges);
    distribute();
    indptr_[0] = 0;
    spare_.resize(static_cast<std::size_t>(layout_.threads));
    parallel_tasks(layout_.buckets, layout_.threads, [&](std::int64_t bucket, int worker) {
      const std::int64_t begin = starts_[bucket], end = starts_[bucket + 1];
      if (end - begin > layout_.limit) return;
      place(begin, end, layout_.first_row(bucket), layout_.first_row(bucket),
            layout_.first_row(bucket + 1), worker);
    });
    for (std::int64_t bucket = 0; bucket < layout_.buckets; ++bucket) {
      if (starts_[bucket + 1] - starts_[bucket] > layout_.limit) place_large(bucket);
    }
  }

 private:
  // Checks the ids and counts edges per (thread, bucket).
  void count() {
    cells_.assign(static_cast<std::size_t>(layout_.threads * layout_.buckets), 0);
    std::vector<std::int64_t> bad(static_cast<std::size_t>(layout_.threads), -1);
    split([&](std::int64_t begin, std::int64_t end, int part) {
      std::int64_t* cell = &cells_[static_cast<std::size_t>(part * layout_.buckets)];
      for (std::int64_t at = begin; at < end; at += kBlock) {
        const std::int64_t stop = std::min(end, at + kBlock);
        bool outside = false;
        for (std::int64_t e = at; e < stop; ++e) outside |= !inside(e);
        if (outside) {
          for (bad[part] = at; inside(bad[part]);) ++bad[part];
          return;
        }
        for (std::int64_t e = at; e < stop; ++e) ++cell[target_[e] >> layout_.row_shift];
      }
    });
    for (std::int64_t position : bad) {  // parts are in input order: the first is the smallest
      if (position >= 0) complain(position);
    }
  }

  bool inside(std::int64_t e) const {
    // bitwise and: one comparison chain without branches vectorises
    return (static_cast<std::uint64_t>(source_[e]) <
            static_cast<std::uint64_t>(layout_.num_nodes)) &
           (static_cast<std::uint64_t>(target_[e]) < static_cast<std::uint64_t>(layout_.num_rows));
  }

  [[noreturn]] void complain(std::int64_t e) const {
    const bool at_source =
        static_cast<std::uint64_t>(source_[e]) >= static_cast<std::uint64_t>(layout_.num_nodes);
    throw InputError("edge " + std::to_string(e) + " has " + (at_source ? "source " : "target ") +
                     std::to_string(at_source ? source_[e] : target_[e]) + ", but the graph has " +
                     std::to_string(at_source ? layout_.num_nodes : layout_.num_rows) +
                     " nodes (ids are 0 to N-1)");
  }

  void split(const std::function<void(std::int64_t, std::int64_t, int)>& body) {
    parallel_for(layout_.num_edges, layout_.threads, kPartEdges, body);
  }

  // Few enough edges for the caches: rows in input order need no buckets.
  void place_directly() {
    std::fill_n(indptr_, layout_.num_rows + 1, 0);
    std::int64_t* cursor = indptr_ + 1;  // count, then start, and by scattering end of a row
    for (const Id v : target_) ++cursor[v];
    std::int64_t total = 0;
    for (std::int64_t v = 0; v < layout_.num_rows; ++v) total += std::exchange(cursor[v], total);
    for (std::int64_t e = 0; e < layout_.num_edges; ++e) {
      const std::int64_t k = cursor[target_[e]]++;
      indices_[k] = source_[e];
      if (order_ != nullptr) order_[k] = e;
    }
  }

  // Turns counts into write positions and copies every edge into its bucket, stably.
  void distribute() {
    starts_.resize(static_cast<std::size_t>(layout_.buckets + 1));
    std::int64_t total = 0;
    for (std::int64_t bucket = 0; bucket < layout_.buckets; ++bucket) {
      starts_[bucket] = total;
      for (int part = 0; part < layout_.threads; ++part) {
        std::int64_t& cell = cells_[static_cast<std::size_t>(part * layout_.buckets + bucket)];
        total += std::exchange(cell, total);
      }
    }
    starts_[layout_.buckets] = total;
    split([&](std::int64_t begin, std::int64_t end, int part) {
      Mixer<Item> mixer(items_.get(), &cells_[static_cast<std::size_t>(part * layout_.buckets)],
                        layout_.buckets);
      const std::uint64_t row_mask = (std::uint64_t{1} << layout_.row_shift) - 1;
      for (std::int64_t e = begin; e < end; ++e) {
        const auto v = static_cast<std::uint64_t>(target_[e]);
        const auto u = static_cast<std::uint64_t>(source_[e]);
        mixer.push(v >> layout_.row_shift, Item::make(layout_.pack(v & row_mask, u, e), e));
      }
      mixer.flush();
    });
  }

  // Lays out the rows [row_begin, row_end) whose items are [begin, end); rows in items count from
  // `base`. The items are used up.
  void place(std::int64_t begin, std::int64_t end, std::int64_t base, std::int64_t row_begin,
             std::int64_t row_end, int worker) {
    const Item* from = items_.get() + begin;
    const std::int64_t n = end - begin;
    if (layout_.sort_rows && n > 1) from = sort_sources(begin, n, worker);
    // indptr[v + 1] is first the count, then the start, and by scattering the end of row v.
    std::int64_t* cursor = indptr_ + base + 1;
    std::fill(indptr_ + row_begin + 1, indptr_ + row_end + 1, 0);
    for (std::int64_t i = 0; i < n; ++i) ++cursor[layout_.row(from[i].bits())];
    std::int64_t total = begin;
    for (std::int64_t v = row_begin + 1; v <= row_end; ++v) {
      total += std::exchange(indptr_[v], total);
    }
    if (order_ == nullptr) {
      for (std::int64_t i = 0; i < n; ++i) {
        const std::uint64_t bits = from[i].bits();
        indices_[cursor[layout_.row(bits)]++] = static_cast<Id>(layout_.source(bits));
      }
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t bits = from[i].bits();
      const std::int64_t k = cursor[layout_.row(bits)]++;
      indices_[k] = static_cast<Id>(layout_.source(bits));
      order_[k] = position_of(from[i]);
    }
  }

  std::int64_t position_of(const Item& item) const {
    return Item::kCarries ? item.position() : layout_.position(item.bits());
  }

  // Stable radix sort by source of at most `limit` items; returns where the sorted items are.
  const Item* sort_sources(std::int64_t begin, std::int64_t n, int worker) {
    auto& spare = spare_[static_cast<std::size_t>(worker)];
    if (!spare) spare = make_items<Item>(layout_.limit);
    Item* from = items_.get() + begin;
    Digits digits(layout_.source_bits, 1);
    for (std::int64_t i = 0; i < n; ++i) digits.count(layout_.source(from[i].bits()));
    digits.accumulate();
    Item* to = spare.get();
    for (int pass = 0; pass < digits.passes; ++pass) {
      for (std::int64_t i = 0; i < n; ++i) {
        to[digits.next(pass, layout_.source(from[i].bits()))] = from[i];
      }
      std::swap(from, to);
    }
    return from;
  }

  // The same for one row of any length, already laid out at [from, to): it goes to the items at
  // its own positions, which are free, and back, an even number of times.
  void sort_long_row(std::int64_t from, std::int64_t to) {
    Digits digits(layout_.source_bits, 2);
    for (std::int64_t k = from; k < to; ++k) digits.count(static_cast<std::uint64_t>(indices_[k]));
    digits.accumulate();
    Item* away = items_.get() + from;
    for (int pass = 0; pass < digits.passes; pass += 2) {
      for (std::int64_t k = from; k < to; ++k) {
        const auto u = static_cast<std::uint64_t>(indices_[k]);
        const std::int64_t position = order_ == nullptr ? 0 : order_[k];
        away[digits.next(pass, u)] = Item::make(layout_.pack(0, u, position), position);
      }
      for (std::int64_t i = 0; i < to - from; ++i) {
        const std::uint64_t u = layout_.source(away[i].bits());
        const std::int64_t k = from + digits.next(pass + 1, u);
        indices_[k] = static_cast<Id>(u);
        if (order_ != nullptr) order_[k] = position_of(away[i]);
      }
    }
  }

  // A bucket over the limit: all threads lay out its rows by counting, then sort groups of rows.
  void place_large(std::int64_t bucket) {
    const std::int64_t begin = starts_[bucket], n = starts_[bucket + 1] - begin;
    const std::int64_t base = layout_.first_row(bucket);
    const std::int64_t rows = layout_.first_row(bucket + 1) - base;
    // Counters of all parts together stay below one per item.
    const auto parts = static_cast<int>(std::clamp<std::int64_t>(n / rows, 1, layout_.threads));
    std::vector<std::int64_t> cells(static_cast<std::size_t>(parts * rows), 0);
    auto each = [&](auto&& body) {
      parallel_for(n, parts, kPartEdges, [&](std::int64_t from, std::int64_t to, int part) {
        std::int64_t* cell = &cells[static_cast<std::size_t>(part * rows)];
        for (std::int64_t i = begin + from; i < begin + to; ++i) {
          body(items_[i], cell[layout_.row(items_[i].bits())]);
        }
      });
    };
    each([](const Item&, std::int64_t& cell) { ++cell; });
    std::int64_t total = begin;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (int part = 0; part < parts; ++part) {
        total += std::exchange(cells[static_cast<std::size_t>(part * rows + row)], total);
      }
      indptr_[base + row + 1] = total;
    }
    each([&](const Item& item, std::int64_t& cell) {
      indices_[cell] = static_cast<Id>(layout_.source(item.bits()));
      if (order_ != nullptr) order_[cell] = position_of(item);
      ++cell;
    });
    if (layout_.sort_rows) sort_groups(begin, base, rows);
  }

  // Sorts rows already laid out, in groups of at most kBucketEdges or one long row. The items of
  // the bucket are free by now, and a group uses those at its own output positions.
  void sort_groups(std::int64_t begin, std::int64_t base, std::int64_t rows) {
    auto edge_at = [&](std::int64_t row) { return row == 0 ? begin : indptr_[base + row]; };
    std::vector<std::int64_t> cuts{0};
    std::int64_t filled = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t length = edge_at(row + 1) - edge_at(row);
      if (filled > 0 && filled + length > kBucketEdges) {
        cuts.push_back(row);
        filled = 0;
      }
      filled += length;
    }
    cuts.push_back(rows);
    std::vector<std::array<std::int64_t, 2>> edges;  // read before place() rewrites indptr
    for (std::size_t g = 0; g + 1 < cuts.size(); ++g) {
      edges.push_back({edge_at(cuts[g]), edge_at(cuts[g + 1])});
    }
    parallel_tasks(static_cast<std::int64_t>(edges.size()), layout_.threads,
                   [&](std::int64_t g, int worker) {
                     const auto [from, to] = edges[static_cast<std::size_t>(g)];
                     sort_group(from, to, base, cuts[static_cast<std::size_t>(g)],
                                cuts[static_cast<std::size_t>(g + 1)], worker);
                   });
  }

  void sort_group(std::int64_t from, std::int64_t to, std::int64_t base, std::int64_t row_begin,
                  std::int64_t row_end, int worker) {
    if (to - from > layout_.limit) return sort_long_row(from, to);
    std::int64_t k = from;
    for (std::int64_t row = row_begin; row < row_end; ++row) {
      const std::int64_t end = row + 1 == row_end ? to : indptr_[base + row + 1];
      for (; k < end; ++k) {
        const std::int64_t position = order_ == nullptr ? 0 : order_[k];
        items_[k] = Item::make(layout_.pack(static_cast<std::uint64_t>(row),
                                            static_cast<std::uint64_t>(indices_[k]), position),
                               position);
      }
    }
    place(from, to, base, base + row_begin, base + row_end, worker);
  }

  const Layout layout_;
  const std::span<const Id> source_, target_;
  std::int64_t* const indptr_;
  Id* const indices_;
  std::int64_t* const order_;
  std::vector<std::int64_t> cells_;   // [thread][bucket]: counts, then write positions
  std::vector<std::int64_t> starts_;  // first item of each bucket, and E
  Items<Item> items_;
  std::vector<Items<Item>> spare_;  // `limit` items per thread, made on demand
};

void check_sizes(std::size_t source, std::size_t target, std::int64_t num_nodes, std::size_t indptr,
                 std::size_t indices, std::size_t order) {
  if (num_nodes < 0 || num_nodes > kMostNodes) {
    throw InputError("num_nodes is " + std::to_string(num_nodes) + ", expected 0 to 2^37");
  }
  if (source != target || indices != source || (order != 0 && order != source)) {
    throw InputError("source, target, indices and order have " + std::to_string(source) + ", " +
                     std::to_string(target) + ", " + std::to_string(indices) + " and " +
                     std::to_string(order) + " entries; expected one for each edge in all");
  }
  if (indptr == 0 || indptr > static_cast<std::size_t>(num_nodes) + 1) {
    throw InputError("indptr has " + std::to_string(indptr) +
                     " entries, expected 1 to num_nodes + 1 = " + std::to_string(num_nodes + 1));
  }
}

}  // namespace

template <typename Id>
void detail::build_csc_as(int item_bytes, std::span<const Id> source, std::span<const Id> target,
                          std::int64_t num_nodes, std::span<std::int64_t> indptr,
                          std::span<Id> indices, std::span<std::int64_t> order, int threads,
                          bool sort_rows) {
  check_sizes(source.size(), target.size(), num_nodes, indptr.size(), indices.size(), order.size());
  const auto num_edges = static_cast<std::int64_t>(source.size());
  if (num_edges == 0) {
    std::fill(indptr.begin(), indptr.end(), 0);
    return;
  }
  const auto num_rows = static_cast<std::int64_t>(indptr.size()) - 1;
  if (num_rows == 0) throw InputError("there are edges, but the graph has 0 nodes");
  Layout layout = make_layout(num_nodes, num_rows, num_edges, threads, sort_rows);
  layout.direct = item_bytes == 0 && !sort_rows && num_edges <= kDirectEdges;
  auto run = [&]<typename Item>(std::type_identity<Item>, int packed_position) {
    layout.source_shift = packed_position;
    layout.row_bit = packed_position + layout.source_bits;
    Builder<Id, Item>(layout, source, target, indptr.data(), indices.data(),
                      order.empty() ? nullptr : order.data())
        .run();
  };
  const int position_bits = order.empty() ? 0 : width_of(num_edges);
  const int bits = layout.row_shift + layout.source_bits + position_bits;
  if (bits <= 32 && item_bytes <= 4) {
    return run(std::type_identity<Slim<std::uint32_t>>{}, position_bits);
  }
  if (bits <= 64 && item_bytes <= 8) {
    return run(std::type_identity<Slim<std::uint64_t>>{}, position_bits);
  }
  if (position_bits <= 32 && item_bytes <= 12) return run(std::type_identity<Carrier12>{}, 0);
  return run(std::type_identity<Carrier16>{}, 0);
}

template <typename Id>
void build_csc(std::span<const Id> source, std::span<const Id> target, std::int64_t num_nodes,
               std::span<std::int64_t> indptr, std::span<Id> indices, std::span<std::int64_t> order,
               int threads, bool sort_rows) {
  detail::build_csc_as<Id>(0, source, target, num_nodes, indptr, indices, order, threads,
                           sort_rows);
}

#define FOREGATHER_CSC(Id)                                                                     \
  template void detail::build_csc_as<Id>(int, std::span<const Id>, std::span<const Id>,        \
                                         std::int64_t, std::span<std::int64_t>, std::span<Id>, \
                                         std::span<std::int64_t>, int, bool);                  \
  template void build_csc<Id>(std::span<const Id>, std::span<const Id>, std::int64_t,          \
                              std::span<std::int64_t>, std::span<Id>, std::span<std::int64_t>, \
                              int, bool);
FOREGATHER_CSC(std::uint32_t)
FOREGATHER_CSC(std::int64_t)
#undef FOREGATHER_CSC

}  // namespace foregather
