#include "sampling/sampling_verbs.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "parallel/pool.hpp"
#include "sampling/layerwise/fastgcn_draw.hpp"
#include "sampling/numbering/numbering.hpp"
#include "sampling/picking/choose.hpp"

namespace foregather {
namespace {

constexpr std::int64_t kRowGrain = 64;  // rows a thread takes at least
using Pointer = std::span<const std::int64_t>;

void require(bool holds, const char* what) {
  if (!holds) throw InputError(what);
}

// A pointer array over `length` items; nothing is followed before this held.
void check_pointer(Pointer ptr, std::size_t length, const char* what) {
  require(!ptr.empty() && ptr.front() == 0 && std::is_sorted(ptr.begin(), ptr.end()) &&
              ptr.back() == static_cast<std::int64_t>(length),
          what);
}

void check_weights(std::span<const double> weights) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0 && std::isfinite(weights[i]))) {
      throw InputError("weights hold " + std::to_string(weights[i]) + " at position " +
                       std::to_string(i) + ", expected finite numbers that are not negative");
    }
  }
}

std::int64_t picks_of(std::int64_t positive, std::int64_t s, bool replace) {
  if (s < 0) return positive;
  if (replace) return positive > 0 ? s : 0;
  return std::min(positive, s);
}

}  // namespace

// ---- rows -----------------------------------------------------------------------------------

template <typename Id>
void count_rows(Pointer indptr, std::span<const Id> rows, std::span<std::int64_t> ptr) {
  require(!indptr.empty() && ptr.size() == rows.size() + 1,
          "ptr does not have one entry more than rows");
  const auto nodes = static_cast<std::int64_t>(indptr.size()) - 1;
  ptr[0] = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto v = static_cast<std::int64_t>(rows[r]);
    if (v < 0 || v >= nodes) {
      throw InputError("rows hold node " + std::to_string(v) + ", but the graph has " +
                       std::to_string(nodes) + " nodes (ids are 0 to N-1)");
    }
    ptr[r + 1] = ptr[r] + (indptr[v + 1] - indptr[v]);
  }
}

template <typename Id>
void extract_rows(Pointer indptr, std::span<const Id> indices, std::span<const Id> rows,
                  Pointer ptr, std::span<Id> columns, std::span<std::int64_t> edge, int threads) {
  std::vector<std::int64_t> expected(rows.size() + 1);
  count_rows<Id>(indptr, rows, expected);
  require(std::equal(ptr.begin(), ptr.end(), expected.begin(), expected.end()),
          "ptr is not what count_rows gave for these rows");
  check_pointer(ptr, columns.size(), "columns do not have one entry for each entry of the rows");
  require(edge.size() == columns.size(), "edge and columns differ in length");
  parallel_for(static_cast<std::int64_t>(rows.size()), threads, kRowGrain,
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   const std::int64_t first = indptr[static_cast<std::int64_t>(rows[r])];
                   for (std::int64_t i = ptr[r]; i < ptr[r + 1]; ++i) {
                     edge[i] = first + (i - ptr[r]);
                     columns[i] = indices[edge[i]];
                   }
                 }
               });
}

// ---- sums over columns ----------------------------------------------------------------------

FixedPoint::FixedPoint(double largest, std::int64_t entries) {
  int above = 0;  // largest < 2^above
  if (largest > 0) std::frexp(largest, &above);
  exponent_ = 61 - std::bit_width(static_cast<std::uint64_t>(entries)) - above;
  factor_ = std::abs(exponent_) < 1000 ? std::ldexp(1.0, exponent_) : 0;
}

double FixedPoint::unit() const { return std::ldexp(1.0, -exponent_); }

std::int64_t FixedPoint::operator()(double value) const {
  if (!(value > 0)) return 0;
  const double scaled = factor_ > 0 ? value * factor_ : std::ldexp(value, exponent_);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(scaled + 0.5));
}

template <typename Id>
void sum_columns(Pointer entry_ptr, std::span<const Id> columns, std::span<const double> values,
                 const ColumnSums<Id>& out, int threads) {
  check_pointer(entry_ptr, columns.size(), "entry_ptr does not cover the columns");
  const std::size_t batches = entry_ptr.size() - 1;
  require(values.size() == columns.size() && out.columns.size() == columns.size() &&
              out.sums.size() == columns.size() && out.counts.size() == batches &&
              out.unit.size() == batches,
          "values, columns and outputs of sum_columns differ in length");
  check_weights(values);
  parallel_tasks(static_cast<std::int64_t>(batches), threads, [&](std::int64_t b, int) {
    const std::int64_t begin = entry_ptr[b], end = entry_ptr[b + 1];
    double largest = 0;
    for (std::int64_t i = begin; i < end; ++i) largest = std::max(largest, values[i]);
    const FixedPoint fixed(largest, end - begin);
    Numbering<Id> numbering;
    std::vector<std::int64_t> sums;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint32_t at = numbering.number(columns[i]);
      if (at == sums.size()) sums.push_back(0);
      sums[at] += fixed(values[i]);
    }
    std::copy(numbering.ids().begin(), numbering.ids().end(), out.columns.begin() + begin);
    const auto count = static_cast<std::int64_t>(sums.size());
    std::sort(out.columns.begin() + begin, out.columns.begin() + begin + count);
    for (std::int64_t i = begin; i < begin + count; ++i) {
      out.sums[i] = sums[numbering.find(out.columns[i])];
    }
    out.counts[b] = count;
    out.unit[b] = fixed.unit();
  });
}

template <typename Id>
double square_columns(Pointer indptr, std::span<const Id> indices,
                      std::span<const float> edge_weight, std::span<std::int64_t> sums,
                      int threads) {
  check_pointer(indptr, indices.size(), "indptr does not run from 0 to the number of edges");
  require(edge_weight.empty() || edge_weight.size() == indices.size(),
          "edge_weight does not have one entry for each edge");
  const auto nodes = static_cast<std::int64_t>(indptr.size()) - 1;
  const auto columns = static_cast<std::int64_t>(sums.size());
  double largest = 0;
  for (float w : edge_weight) {
    require(std::isfinite(w), "edge_weight holds a number that is not finite");
    largest = std::max(largest, static_cast<double>(w) * static_cast<double>(w));
  }
  for (std::int64_t v = 0; v < nodes && edge_weight.empty(); ++v) {
    const double value = 1.0 / static_cast<double>(indptr[v + 1] - indptr[v]);
    if (indptr[v + 1] > indptr[v]) largest = std::max(largest, value * value);
  }
  const FixedPoint fixed(largest, static_cast<std::int64_t>(indices.size()));
  std::fill(sums.begin(), sums.end(), 0);
  parallel_for(nodes, threads, 4096, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t v = begin; v < end; ++v) {
      const double value = 1.0 / static_cast<double>(indptr[v + 1] - indptr[v]);
      const std::int64_t same = edge_weight.empty() ? fixed(value * value) : 0;
      for (std::int64_t e = indptr[v]; e < indptr[v + 1]; ++e) {
        const auto column = static_cast<std::int64_t>(indices[e]);
        require(column >= 0 && column < columns, "indices hold an id that is not a node");
        const double w = edge_weight.empty() ? 0 : static_cast<double>(edge_weight[e]);
        // Relaxed: integers are only added, and the threads are joined before anyone reads.
        std::atomic_ref<std::int64_t>(sums[column])
            .fetch_add(edge_weight.empty() ? same : fixed(w * w), std::memory_order_relaxed);
      }
    }
  });
  return fixed.unit();
}

// ---- picks ----------------------------------------------------------------------------------

void count_picks(Pointer ptr, std::span<const double> weights, std::int64_t s, bool replace,
                 std::span<std::int64_t> picks_ptr) {
  require(!ptr.empty() && picks_ptr.size() == ptr.size(), "picks_ptr and ptr differ in length");
  check_pointer(ptr, weights.empty() ? static_cast<std::size_t>(ptr.back()) : weights.size(),
                "weights do not have one number for each entry");
  check_weights(weights);
  picks_ptr[0] = 0;
  for (std::size_t r = 0; r + 1 < ptr.size(); ++r) {
    std::int64_t positive = ptr[r + 1] - ptr[r];
    for (std::int64_t i = ptr[r]; i < ptr[r + 1] && !weights.empty(); ++i) {
      positive -= weights[i] == 0 ? 1 : 0;
    }
    picks_ptr[r + 1] = picks_ptr[r] + picks_of(positive, s, replace);
  }
}

namespace {

// One row without replacement.
template <typename Id>
double smallest_keys(const StackedRows<Id>& p, std::span<const double> weights, std::int64_t r,
                     std::uint64_t key, std::int64_t s, std::vector<detail::Candidate>& found) {
  found.clear();
  std::uint64_t repeat = 0;
  for (std::int64_t i = p.ptr[r]; i < p.ptr[r + 1]; ++i) {
    const Id column = p.columns[i];
    repeat = i > p.ptr[r] && column == p.columns[i - 1] ? repeat + 1 : 0;
    const double w = weights.empty() ? 1 : weights[i];
    if (!(w > 0)) continue;
    const std::uint64_t own = repeat == 0 ? key : derive(key, repeat);
    const double e = exponential(draw(own, static_cast<std::uint64_t>(column))) / w;
    found.push_back({e, static_cast<std::int64_t>(column), i});
  }
  return s < 0 ? std::numeric_limits<double>::infinity() : detail::keep_smallest(found, s);
}

// One row with replacement; cumulated weights are summed in the order of the row.
template <typename Id>
void draw_again(const StackedRows<Id>& p, std::span<const double> weights, std::int64_t r,
                std::uint64_t key, std::span<std::int64_t> picks, std::vector<double>& upto) {
  upto.clear();
  double total = 0;
  for (std::int64_t i = p.ptr[r]; i < p.ptr[r + 1]; ++i) {
    total += weights.empty() ? 1 : weights[i];
    upto.push_back(total);
  }
  // The last entry whose sum is below `total` is followed by the last of positive weight.
  const auto last = std::lower_bound(upto.begin(), upto.end(), total) - upto.begin();
  for (std::size_t t = 0; t < picks.size(); ++t) {
    const double at = to_unit(draw(key, t)) * total;
    const auto found = std::upper_bound(upto.begin(), upto.end(), at) - upto.begin();
    picks[t] = p.ptr[r] + std::min(found, last);
  }
  std::sort(picks.begin(), picks.end());
}

}  // namespace

template <typename Id>
void sample_rows(const StackedRows<Id>& p, std::span<const double> weights,
                 std::span<const std::uint64_t> keys, std::int64_t s, bool replace,
                 Pointer picks_ptr, std::span<std::int64_t> picks, std::span<double> tau,
                 int threads) {
  const std::size_t rows = p.rows.size();
  check_pointer(p.ptr, p.columns.size(), "ptr does not cover the columns");
  check_pointer(p.batch_ptr, rows, "batch_ptr does not cover the rows");
  require(p.ptr.size() == rows + 1, "ptr does not have one entry more than rows");
  require(keys.size() + 1 == p.batch_ptr.size(), "there is not one key for each batch");
  require(weights.empty() || weights.size() == p.columns.size(),
          "weights do not have one number for each entry");
  require(tau.empty() || tau.size() == rows, "tau does not have one number for each row");
  require(!(replace && s < 0), "all entries cannot be picked with replacement; give a number");
  std::vector<std::int64_t> expected(rows + 1);
  count_picks(p.ptr, weights, s, replace, expected);
  require(std::equal(picks_ptr.begin(), picks_ptr.end(), expected.begin(), expected.end()),
          "picks_ptr is not what count_picks gave for these rows");
  require(picks.size() == static_cast<std::size_t>(expected.back()),
          "picks do not have the length count_picks gave");
  parallel_for(
      static_cast<std::int64_t>(rows), threads, kRowGrain,
      [&](std::int64_t begin, std::int64_t end, int) {
        std::vector<detail::Candidate> found;
        std::vector<double> upto;
        std::vector<std::uint32_t> places;
        PickScratch scratch;
        std::int64_t b = std::upper_bound(p.batch_ptr.begin(), p.batch_ptr.end(), begin) -
                         p.batch_ptr.begin() - 1;
        for (std::int64_t r = begin; r < end; ++r) {
          while (r >= p.batch_ptr[b + 1]) ++b;
          const std::uint64_t key = vertex_key(keys[b], static_cast<std::uint64_t>(p.rows[r]));
          const auto count = static_cast<std::size_t>(picks_ptr[r + 1] - picks_ptr[r]);
          auto own = picks.subspan(static_cast<std::size_t>(picks_ptr[r]), count);
          if (weights.empty() && tau.empty()) {
            detail::draw_uniform(p.ptr[r], p.ptr[r + 1], key, replace, own, places, scratch);
            continue;
          }
          if (replace) {
            if (count > 0) draw_again(p, weights, r, key, own, upto);
            continue;
          }
          const double next = smallest_keys(p, weights, r, key, s, found);
          if (!tau.empty()) tau[r] = next;
          for (std::size_t i = 0; i < count; ++i) own[i] = found[i].place;
        }
      });
}

template <typename Id>
void sample_columns(Pointer column_ptr, std::span<const Id> columns,
                    std::span<const double> weights, std::span<const std::uint64_t> keys,
                    std::int64_t s, Pointer picks_ptr, std::span<std::int64_t> picks,
                    std::span<double> tau, int threads) {
  const bool shared = columns.empty() && column_ptr.size() == 2 && !weights.empty();
  check_pointer(column_ptr, weights.size(), "column_ptr does not cover the weights");
  require(shared || columns.size() == weights.size(),
          "weights do not have one number for each column");
  require(shared || column_ptr.size() == keys.size() + 1, "there is not one key for each batch");
  require(tau.size() == keys.size(), "tau does not have one number for each batch");
  std::vector<std::int64_t> counted(column_ptr.size());
  count_picks(column_ptr, weights, s, false, counted);
  const auto batches = static_cast<std::int64_t>(keys.size());
  check_pointer(picks_ptr, picks.size(), "picks_ptr does not cover the picks");
  require(picks_ptr.size() == keys.size() + 1, "picks_ptr does not have one entry a batch");
  for (std::int64_t b = 0; b < batches; ++b) {
    const std::int64_t own = shared ? counted[1] : counted[b + 1] - counted[b];
    require(picks_ptr[b + 1] - picks_ptr[b] == own,
            "picks_ptr is not what count_picks gave for these columns");
  }
  const Arrivals arrivals(shared ? weights : std::span<const double>{});
  parallel_tasks(batches, threads, [&](std::int64_t b, int) {
    const std::int64_t begin = shared ? 0 : column_ptr[b];
    const std::int64_t n = shared ? 0 : column_ptr[b + 1] - begin;
    double total = 0;  // only guides the search, so the order of this sum does not matter
    for (std::int64_t i = 0; i < n; ++i) total += weights[begin + i];
    std::vector<detail::Candidate> found;
    Numbering<std::int64_t> met;
    tau[b] =
        shared ? arrivals.choose(keys[b], s, found, met)
               : detail::choose(
                     n, [&](std::int64_t i) { return columns[begin + i]; },
                     [&](std::int64_t i) { return weights[begin + i]; }, total, keys[b], s, found);
    for (std::size_t i = 0; i < found.size(); ++i) {
      picks[picks_ptr[b] + static_cast<std::int64_t>(i)] = begin + found[i].place;
    }
  });
}

// ---- extraction -----------------------------------------------------------------------------

template <typename Id>
void match_columns(Pointer entry_ptr, std::span<const Id> columns, Pointer selected_ptr,
                   std::span<const Id> selected, std::span<std::int64_t> match, int threads) {
  check_pointer(entry_ptr, columns.size(), "entry_ptr does not cover the columns");
  check_pointer(selected_ptr, selected.size(), "selected_ptr does not cover the selected");
  require(selected_ptr.size() == entry_ptr.size(), "entry_ptr and selected_ptr differ in length");
  require(match.size() == columns.size(), "match does not have one number for each entry");
  const auto batches = static_cast<std::int64_t>(entry_ptr.size()) - 1;
  parallel_tasks(batches, threads, [&](std::int64_t b, int) {
    Numbering<Id> numbering;
    for (std::int64_t i = selected_ptr[b]; i < selected_ptr[b + 1]; ++i) {
      require(numbering.number(selected[i]) == static_cast<std::uint32_t>(i - selected_ptr[b]),
              "selected hold a column twice");
    }
    for (std::int64_t i = entry_ptr[b]; i < entry_ptr[b + 1]; ++i) {
      const std::uint32_t at = numbering.find(columns[i]);
      match[i] = at == Numbering<Id>::kNone ? -1 : selected_ptr[b] + at;
    }
  });
}

template <typename Id>
void compact(Pointer node_ptr, std::span<const Id> nodes, Pointer edge_ptr,
             std::span<const Id> columns, std::span<std::uint32_t> row, std::span<Id> fresh,
             std::span<std::int64_t> counts, int threads) {
  check_pointer(node_ptr, nodes.size(), "node_ptr does not cover the nodes");
  check_pointer(edge_ptr, columns.size(), "edge_ptr does not cover the columns");
  require(node_ptr.size() == edge_ptr.size() && counts.size() + 1 == edge_ptr.size(),
          "node_ptr, edge_ptr and counts are for different numbers of batches");
  require(row.size() == columns.size() && fresh.size() == columns.size(),
          "row and fresh do not have one entry for each column");
  const auto batches = static_cast<std::int64_t>(counts.size());
  parallel_tasks(batches, threads, [&](std::int64_t b, int) {
    Numbering<Id> numbering;
    const auto known = static_cast<std::uint32_t>(node_ptr[b + 1] - node_ptr[b]);
    for (std::int64_t i = node_ptr[b]; i < node_ptr[b + 1]; ++i) numbering.number(nodes[i]);
    require(numbering.size() == known, "nodes hold a node twice");
    for (std::int64_t i = edge_ptr[b]; i < edge_ptr[b + 1]; ++i) {
      row[i] = numbering.number(columns[i]);
    }
    const auto ids = numbering.ids().subspan(known);
    std::copy(ids.begin(), ids.end(), fresh.begin() + edge_ptr[b]);
    counts[b] = static_cast<std::int64_t>(ids.size());
  });
}

#define FOREGATHER_MATRIX(Id)                                                                 \
  template void count_rows<Id>(Pointer, std::span<const Id>, std::span<std::int64_t>);        \
  template void extract_rows<Id>(Pointer, std::span<const Id>, std::span<const Id>, Pointer,  \
                                 std::span<Id>, std::span<std::int64_t>, int);                \
  template void sum_columns<Id>(Pointer, std::span<const Id>, std::span<const double>,        \
                                const ColumnSums<Id>&, int);                                  \
  template double square_columns<Id>(Pointer, std::span<const Id>, std::span<const float>,    \
                                     std::span<std::int64_t>, int);                           \
  template void sample_rows<Id>(const StackedRows<Id>&, std::span<const double>,              \
                                std::span<const std::uint64_t>, std::int64_t, bool, Pointer,  \
                                std::span<std::int64_t>, std::span<double>, int);             \
  template void sample_columns<Id>(Pointer, std::span<const Id>, std::span<const double>,     \
                                   std::span<const std::uint64_t>, std::int64_t, Pointer,     \
                                   std::span<std::int64_t>, std::span<double>, int);          \
  template void match_columns<Id>(Pointer, std::span<const Id>, Pointer, std::span<const Id>, \
                                  std::span<std::int64_t>, int);                              \
  template void compact<Id>(Pointer, std::span<const Id>, Pointer, std::span<const Id>,       \
                            std::span<std::uint32_t>, std::span<Id>, std::span<std::int64_t>, \
                            int);
FOREGATHER_MATRIX(std::uint32_t)
FOREGATHER_MATRIX(std::int64_t)
#undef FOREGATHER_MATRIX

}  // namespace foregather
