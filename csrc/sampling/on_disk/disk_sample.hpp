// DiskSampler: k minibatches of neighbours at once from a topology on disk, in bounded memory.
//
// Which edges a row gives is a pure function of its key and its degree (keys.hpp, pick.hpp), so
// with the row index in memory all picks of a layer are known, for all minibatches, before a single
// id is read. A layer is then:
//     draw      positions of all picks                                  parallel over minibatches
//     mark      the blocks of the file that hold them                   parallel
//     plan      one ordered pass over the file (block_pass.hpp)
//     resolve   ids in the cache at once, the others as windows arrive  parallel, while reading
//     renumber  as the in-memory sampler does, in the same order        parallel over minibatches
// Where minibatches leave edges out, their places in the rows are looked for first
// (row_search.hpp). The result is that of sample_bulk, bit for bit. Each block is read once per
// layer and pass, and only blocks with a picked position are read (and small gaps between them).
//
// Memory: everything the sampler holds is within `memory` bytes: row index, block tables and sums,
// two staging buffers, the order of the picks, renumbering tables, and with what is left the lists
// of hot rows and the cache of blocks. A layer whose picks do not fit the order buffer takes
// several passes. Results are the caller's.
//
// After an exception the sampler can be used again; its cache is empty then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/row_index.hpp"
#include "io/reading/reader.hpp"
#include "plan/block_pass.hpp"
#include "sampling/links/excluded.hpp"
#include "sampling/nodewise/sample.hpp"
#include "sampling/on_disk/hot_rows.hpp"

namespace foregather {

/// The file of sources and how it is read.
struct DiskShape {
  std::int64_t num_nodes, num_edges;
  std::int64_t id_bytes;        ///< 4 or 8
  std::int64_t payload;         ///< byte of edge 0 in the file
  std::int64_t file_bytes;      ///< padded size
  std::int64_t block_bytes;     ///< unit of marking and caching, a power of two from 4096 on
  std::int64_t gap_bytes;       ///< read through gaps up to this size
  std::int64_t sums_bytes = 0;  ///< of block sums that the reader holds
  int hot_percent = 0;          ///< of the cache, for whole lists of chosen rows (hot_rows.hpp)
};

/// How a budget is divided; see divide().
struct DiskShares {
  std::size_t index = 0;    ///< row index
  std::size_t tables = 0;   ///< of BlockPass
  std::size_t sums = 0;     ///< block sums
  std::size_t staging = 0;  ///< both buffers
  std::size_t order = 0;    ///< order of the picks of a pass
  std::size_t ids = 0;      ///< renumbering tables of all threads together
  std::size_t cache = 0;
  std::size_t hot = 0;    ///< lists of chosen rows
  std::size_t least = 0;  ///< the smallest budget that works
  PassShape pass{};
};

/// Divides `memory` bytes. Where they are less than `least`, only that is filled in.
DiskShares divide(const DiskShape& shape, std::size_t memory);

/// What is above the least goes in these parts to order, renumbering and staging; the cache has the
/// rest.
inline constexpr std::size_t kOrderPart = 6, kIdsPart = 6, kStagingPart = 8;

/// Of a tree between its layers, beside its arrays: what is known of it and what it leaves out.
inline constexpr std::int64_t kTreeBytes = 1024;

/// The budget whose renumbering tables have room for `need` bytes.
std::size_t least_for_ids(const DiskShares& shares, std::size_t need);

/// What a sampler has done, and the seconds its phases took (of the calling thread).
struct DiskCounters {
  std::int64_t picks = 0;     ///< hits + misses
  std::int64_t hits = 0;      ///< picks from a held list, or whose block was in the cache
  std::int64_t hot_hits = 0;  ///< of them from a held list
  HotReads hot;               ///< what filling the held lists has read, and what is held now
  double draw = 0, mark = 0, plan = 0, sort = 0, wait = 0, resolve = 0, renumber = 0;
};

template <typename Id>
class DiskSampler {
 public:
  /// A sampler that reads `reader`'s file. Throws BudgetError where `memory` is below the least.
  DiskSampler(std::unique_ptr<BlockReader> reader, const DiskShape& shape, std::size_t memory);
  ~DiskSampler();

  /// The row index, which the caller fills before the first sample.
  RowIndex& index();

  /// As sample_bulk; what is left out is named by ends, in rows whose sources ascend. `check` is
  /// called now and then on the calling thread; what it throws ends the call. Throws FormatError
  /// for a stored id that is not a vertex, BudgetError if one minibatch is too large for the
  /// renumbering table.
  void sample(const NeighborRule& rule, std::span<const std::int64_t> seeds,
              std::span<const std::int64_t> ptr, std::uint64_t seed, std::uint64_t epoch,
              std::uint64_t first_batch, int threads, std::span<SampleArrays<Id>* const> out,
              const std::function<void()>& check, const ExcludedEdges& excluded = {});

  /// As sample_trees (trees.hpp): seed s has the input row rows[s]. Trees are sampled as
  /// minibatches of their own, all of a bulk at once, and then joined; so beside the results there
  /// is a second copy of them, and at most kTreeBytes for each tree. `excluded` has an entry in ptr
  /// for each tree instead of each minibatch, and names no trees.
  void sample_trees(const NeighborRule& rule, std::span<const std::int64_t> seeds,
                    std::span<const std::int64_t> rows, std::span<const std::int64_t> ptr,
                    std::uint64_t seed, std::uint64_t epoch, int threads,
                    std::span<SampleArrays<Id>* const> out, const std::function<void()>& check,
                    const ExcludedEdges& excluded = {});

  /// Holds the lists of these rows, as many as fit, best first; see HotRows::fill.
  void hold(std::span<const std::int64_t> rows);

  const DiskShares& shares() const;
  DiskCounters counters() const;
  PassCounters pass_counters() const;
  ReadCounters read_counters() const;
  const BlockReader& reader() const;

 private:
  class Work;
  // Samples what work_->batches has been set to.
  void run(const NeighborRule& rule, std::span<const std::int64_t> seeds,
           std::span<const std::int64_t> ptr, int threads, const std::function<void()>& check,
           const ExcludedEdges& excluded);
  std::unique_ptr<Work> work_;
};

}  // namespace foregather
