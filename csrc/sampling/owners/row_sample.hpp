// Row sample: rows of the graph that lie with several owners, asked for and sampled where they lie.
//
// The rows of A are cut into blocks of consecutive vertices, each held by one owner. A requester
// has a stacked frontier (the vertices of batch 0, then of batch 1, ...) and wants, for each of
// them, the picks of pick.hpp under vertex_key(keys[batch], vertex), or the whole row. It sends one
// request to each owner and gets one reply:
//     request  number of batches, their keys; for each batch the vertices, ascending
//     reply    for each distinct vertex, ascending: degree, where its row begins, and the sources
//              at the positions that at least one batch picked
// A pick is a pure function of (key, vertex, degree), so positions do not travel: the requester
// draws them again, and a source crosses once however many batches picked it. A request for whole
// rows has no keys and one batch, the distinct vertices of all. All numbers are varints, of
// differences where they ascend; edge weights (whole rows only) are raw float32.
//
// The block that the requester holds itself is read in place, without request or reply.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace foregather {

/// Rows first_row, first_row + 1, ...: indptr has one entry more than rows, ascends and has
/// absolute positions (whoever opens the block has checked that it ascends; only its ends are
/// checked here), indices (and edge_weight, if not empty) only the entries of these rows.
template <typename Id>
struct BlockRows {
  std::int64_t first_row;
  std::span<const std::int64_t> indptr;
  std::span<const Id> indices;
  std::span<const float> edge_weight;
};

/// What is taken of a row: `fanout` entries, or all if it is negative.
struct RowRule {
  std::int64_t fanout;
  bool replace;
};

/// A request, unpacked: pairs (vertex, batch) in the order of batches.
template <typename Id>
struct RowRequest {
  std::vector<std::uint64_t> keys;  ///< one per batch; none if whole rows are requested
  std::vector<Id> vertex;
  std::vector<std::uint32_t> batch;  ///< of each vertex, ascending
};

/// Reads a request to the owner of `block`; `keyed` says whether it has keys. Throws InputError for
/// one that is damaged or asks for rows of other owners.
template <typename Id>
RowRequest<Id> read_request(const BlockRows<Id>& block, bool keyed,
                            std::span<const std::uint8_t> request);

/// The reply of the owner of `block`. Throws InputError for a request that is damaged or asks for
/// rows of other owners.
template <typename Id>
std::vector<std::uint8_t> answer_rows(const BlockRows<Id>& block, const RowRule& rule,
                                      std::span<const std::uint8_t> request);

/// One layer's questions and what came back. The spans given must outlive the object.
template <typename Id>
class RowInquiry {
 public:
  /// Rows [row_starts[o], row_starts[o + 1]) lie with owner o; `own` is the requester itself.
  RowInquiry(std::span<const Id> rows, std::span<const std::int64_t> batch_ptr,
             std::span<const std::int64_t> row_starts, std::span<const std::uint64_t> keys,
             RowRule rule, std::int64_t own);

  /// What to ask `owner`; empty for the requester itself and where there is nothing to ask.
  std::vector<std::uint8_t> request(std::int64_t owner) const;

  /// Reads the replies (one for each owner, that of `own` is ignored) and fills `ptr`: where the
  /// entries of each row of the stacked frontier begin.
  void accept(std::span<const std::span<const std::uint8_t>> replies, const BlockRows<Id>& block,
              bool weighted, std::span<std::int64_t> ptr, int threads);

  /// Fills the sources of all entries and their positions in A; weights if there are any.
  void fill(const BlockRows<Id>& block, std::span<const std::int64_t> ptr, std::span<Id> columns,
            std::span<std::int64_t> edge, std::span<float> weight, int threads) const;

  std::int64_t owners() const { return static_cast<std::int64_t>(row_starts_.size()) - 1; }

 private:
  struct Group {           // one distinct vertex
    std::uint32_t first;   // its pairs are order_[first ..] up to the next group's
    std::uint32_t degree;  // length of its row
    std::int64_t start;    // where its row begins in A
    std::size_t source;    // where its sources begin in sources_[owner]
  };
  bool whole(std::uint32_t degree) const;
  void read_reply(std::int64_t owner, std::span<const std::uint8_t> reply, bool weighted);
  void read_own(const BlockRows<Id>& block);
  struct Entries;  // where entries go
  void fill_owner(std::int64_t owner, const BlockRows<Id>& block, const Entries& out) const;
  void copy_whole(std::size_t group, const Id* row, const float* weight, const Entries& out) const;

  std::span<const Id> rows_;
  std::span<const std::int64_t> row_starts_;
  std::span<const std::uint64_t> keys_;
  RowRule rule_;
  std::int64_t own_;
  std::vector<std::uint32_t> order_;  // stacked rows by (vertex, batch)
  std::vector<std::uint32_t> batch_;  // batch of each stacked row
  std::vector<Group> groups_;         // one more than distinct vertices
  std::vector<std::size_t> owner_ptr_;
  std::vector<std::vector<Id>> sources_;
  std::vector<std::vector<float>> weights_;
};

}  // namespace foregather
