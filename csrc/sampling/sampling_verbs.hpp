// Matrix: the sparse operations of sampling, over k stacked minibatches.
//
// A is the graph: row i holds the in-edges of vertex i in CSC order. A layer of sampling is
//     P = rows of A for the frontier      count_rows, extract_rows
//     norm: numbers for the entries       sum_columns, or whatever the caller computes
//     Q' = a choice of entries            sample_rows (each row) or sample_columns (each batch)
//     the layer's own small matrix        match_columns, compact
// P is stacked: `rows` are the frontier vertices of batch 0, then of batch 1, ...; row r has the
// entries [ptr[r], ptr[r + 1]); batch b has the rows [batch_ptr[b], batch_ptr[b + 1]) and so the
// entries [entry_ptr[b], entry_ptr[b + 1]), entry_ptr[b] = ptr[batch_ptr[b]]. Every pointer array
// starts at 0, ascends and ends at the length of what it points into; this is checked.
//
// Every result is a pure function of its arguments, for any number of threads: each row or batch
// is the work of one thread, random numbers are functions of (key of batch and layer, vertex), and
// sums over rows are integers. Logarithms are those of exact_math.hpp.
//
// Memory besides arguments: a thread holds the candidates of one row (24 bytes each) or the
// distinct columns of one batch (about 40 bytes each).
#pragma once

#include <cstdint>
#include <span>

#include "base/types.hpp"

namespace foregather {

/// ptr[r + 1] - ptr[r] = entries of row rows[r] of A; ptr has one more entry than rows. Throws
/// InputError for a row that is not a vertex.
template <typename Id>
void count_rows(std::span<const std::int64_t> indptr, std::span<const Id> rows,
                std::span<std::int64_t> ptr);

/// Fills columns (sources) and edge (positions in A) of the rows that count_rows counted.
template <typename Id>
void extract_rows(std::span<const std::int64_t> indptr, std::span<const Id> indices,
                  std::span<const Id> rows, std::span<const std::int64_t> ptr,
                  std::span<Id> columns, std::span<std::int64_t> edge, int threads);

/// Sums over the rows of each batch: what sum_columns fills.
template <typename Id>
struct ColumnSums {
  std::span<Id> columns;           ///< distinct columns of batch b, ascending, from entry_ptr[b] on
  std::span<std::int64_t> sums;    ///< their sums, in units
  std::span<std::int64_t> counts;  ///< distinct columns of each batch
  std::span<double> unit;          ///< the value of one unit, for each batch, a power of two
};

/// For each batch, adds `values` (finite, >= 0) over rows, column by column, in fixed point: a
/// value becomes a whole number of units, at least one unless it is 0, so the sums do not depend on
/// the order. The unit of a batch follows from its largest value and its number of entries n: the
/// largest value has 61 - log2(n) bits, so no sum overflows. `columns` and `sums` have room for all
/// entries.
template <typename Id>
void sum_columns(std::span<const std::int64_t> entry_ptr, std::span<const Id> columns,
                 std::span<const double> values, const ColumnSums<Id>& out, int threads);

/// Fixed point of one batch or graph, as sum_columns uses it.
class FixedPoint {
 public:
  /// For `entries` values of which `largest` is the largest.
  FixedPoint(double largest, std::int64_t entries);
  double unit() const;
  std::int64_t operator()(double value) const;

 private:
  int exponent_;   ///< a unit is 2^-exponent_
  double factor_;  ///< 2^exponent_, or 0 where that is not a normal double
};

/// Sums of the squared values of every column of A (1 / degree of the row, or `edge_weight` if not
/// empty) in units, into sums, one a column; returns the unit. Reads A once (twice with edge
/// weights); threads add into the same integers.
template <typename Id>
double square_columns(std::span<const std::int64_t> indptr, std::span<const Id> indices,
                      std::span<const float> edge_weight, std::span<std::int64_t> sums,
                      int threads);

/// picks_ptr[r + 1] - picks_ptr[r] = entries sample_rows picks of row r. `weights` may be empty
/// (all 1); entries of weight 0 are never picked. s < 0 picks all. Throws InputError for a weight
/// that is negative or not finite.
void count_picks(std::span<const std::int64_t> ptr, std::span<const double> weights, std::int64_t s,
                 bool replace, std::span<std::int64_t> picks_ptr);

/// A stacked P, as sample_rows needs it.
template <typename Id>
struct StackedRows {
  std::span<const Id> rows;
  std::span<const std::int64_t> batch_ptr;
  std::span<const std::int64_t> ptr;
  std::span<const Id> columns;
};

/// Picks entries of each row: `picks` are positions in P, ascending inside a row.
///
/// Without weights and tau: the picks of pick.hpp under the row's vertex key, as in the fused
/// kernel. Without replacement: s entries with probability proportional to weight, one after the
/// other. The entry of column v gets the key E = -log(u) / weight, u = draw(vertex_key(keys[b],
/// row), v); the s smallest win, ties by column. The r-th parallel edge draws under derive(vertex
/// key, r). tau[r] (if tau is not empty) is the smallest key that did not win, infinity if all won:
/// given tau, each winner was included with probability 1 - exp(-weight tau). With replacement:
/// pick t is the entry at to_unit(draw(vertex key, t)) of the row's total weight; tau is not
/// filled.
template <typename Id>
void sample_rows(const StackedRows<Id>& p, std::span<const double> weights,
                 std::span<const std::uint64_t> keys, std::int64_t s, bool replace,
                 std::span<const std::int64_t> picks_ptr, std::span<std::int64_t> picks,
                 std::span<double> tau, int threads);

/// Picks s columns of each batch without replacement with probability proportional to weight, one
/// after the other: E = -log(u) / weight, u = draw(vertex_key(keys[b], column), 0), and the s
/// smallest win; columns that all batches share are drawn as in fastgcn_draw.hpp. `picks` are
/// positions in `columns`, ascending, of batch b from picks_ptr[b] on (count_picks with `ptr` =
/// column_ptr tells how many); tau as in sample_rows. With empty `columns` every batch has the
/// columns 0 .. weights.size() - 1, shared: column_ptr is then {0, weights.size()}, picks_ptr has
/// equal steps.
template <typename Id>
void sample_columns(std::span<const std::int64_t> column_ptr, std::span<const Id> columns,
                    std::span<const double> weights, std::span<const std::uint64_t> keys,
                    std::int64_t s, std::span<const std::int64_t> picks_ptr,
                    std::span<std::int64_t> picks, std::span<double> tau, int threads);

/// match[e] = position in `selected` of the column of entry e, among those selected in its batch,
/// or -1.
template <typename Id>
void match_columns(std::span<const std::int64_t> entry_ptr, std::span<const Id> columns,
                   std::span<const std::int64_t> selected_ptr, std::span<const Id> selected,
                   std::span<std::int64_t> match, int threads);

/// Local numbers: in each batch `nodes` (distinct) are 0, 1, ... and the columns that are not among
/// them follow in the order in which they are met. row[e] is the number of columns[e]; the new
/// nodes of batch b are fresh[edge_ptr[b] .. edge_ptr[b] + counts[b]).
template <typename Id>
void compact(std::span<const std::int64_t> node_ptr, std::span<const Id> nodes,
             std::span<const std::int64_t> edge_ptr, std::span<const Id> columns,
             std::span<std::uint32_t> row, std::span<Id> fresh, std::span<std::int64_t> counts,
             int threads);

}  // namespace foregather
