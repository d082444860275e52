// Negatives: the ends of links that are drawn as examples of what is not linked.
//
// One end is drawn by units: whole numbers, one per node, or as many as its weight has in fixed
// point. Nodes with times are ordered by time (their place is their rank), so that those no later
// than a limit are the first ones, and so are their units. A unit is drawn exactly uniformly among
// the first ones below the limit, less those of destinations to which the source is known to be
// linked, and stands for the node it lies in. Nothing is drawn and rejected.
//
// With the known ranks of a source ascending, as many units that are not known come before known
// rank k as there are units before it, less those of known ranks before it. These numbers ascend,
// so bisection finds how many known ranks come before the unit that was drawn.
//
// Negative j of input row i draws under derive(epoch key of kNegatives, i): its source is draw
// number 2 j, its destination draw number 2 j + 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace foregather {

/// Finds the rank in which a unit lies, in a time that hardly grows with their number: at regular
/// distances it knows the rank of a unit, and bisects between two of these.
class UnitIndex {
 public:
  UnitIndex() = default;
  /// `upto` as in DrawnEnd, which must outlive this.
  explicit UnitIndex(std::span<const std::int64_t> upto);
  /// The last rank before which there are at most `unit` units; unit < the number of all.
  std::int64_t rank_of(std::int64_t unit) const;
  /// Asks for what rank_of reads first.
  [[gnu::always_inline]] void prefetch(std::int64_t unit) const {
    __builtin_prefetch(&at_[static_cast<std::size_t>(unit >> shift_)]);
  }

 private:
  std::span<const std::int64_t> upto_;
  int shift_ = 0;
  std::vector<std::int64_t> at_;  ///< rank of unit number i << shift_, and the last rank
};

/// The nodes of one end; a view.
struct DrawnEnd {
  std::int64_t count = 0;
  std::span<const std::int64_t> upto;   ///< [count + 1] units of lower ranks; empty: one each
  std::span<const std::int64_t> time;   ///< [count] of each rank, ascending; empty: no times
  std::span<const std::int64_t> order;  ///< [count] node of each rank; empty: the rank itself
};

/// To which ranks of destinations each source is linked; a view. Without rows: to none.
template <typename Id>
struct KnownRanks {
  std::span<const std::int64_t> indptr;  ///< [sources + 1]
  std::span<const Id> rank;              ///< ascending in a row, each once
  std::span<const std::int64_t> upto;    ///< units of the ranks of the row before; empty: one each
};

/// The positives of k batches, and how many negatives each batch has.
struct Positives {
  std::span<const std::int64_t> rows;     ///< input rows
  std::span<const std::int64_t> sources;  ///< empty: sources are drawn too
  std::span<const std::int64_t> times;    ///< limits of the times of nodes; empty: any
  std::span<const std::int64_t> ptr;      ///< batch b has those from ptr[b] to ptr[b + 1]
  std::span<const std::int64_t> cuts;     ///< and the negatives from cuts[b] to cuts[b + 1]
};

/// Draws negatives for one relation. What it is made of must outlive it.
template <typename Id>
class NegativeDraws {
 public:
  /// Throws InputError if lengths do not fit, or ranks and nodes are out of range.
  NegativeDraws(DrawnEnd source, DrawnEnd destination, KnownRanks<Id> known);

  /// Negative q of a batch of P belongs to its positive q % P and is number q / P of that. Throws
  /// InputError for a positive that has no negative, the first one, and for lengths that do not
  /// fit.
  void draw(const Positives& given, std::uint64_t seed, std::uint64_t epoch,
            std::span<std::int64_t> source, std::span<std::int64_t> destination, int threads) const;

 private:
  struct One;
  void check(const Positives& given, std::size_t sources, std::size_t destinations) const;
  void refuse(const Positives& given, std::int64_t q, std::uint64_t key) const;
  One begin(const Positives& given, std::size_t batch, std::int64_t q, std::uint64_t key) const;
  bool find_source(One& one) const;
  bool find_units(One& one) const;
  std::int64_t find_destination(const One& one) const;

  DrawnEnd source_, destination_;
  KnownRanks<Id> known_;
  UnitIndex source_units_, destination_units_;
};

}  // namespace foregather
