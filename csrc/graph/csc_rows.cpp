// The passes over finished rows that csc.hpp declares: marking and removing parallel edges.
#include <algorithm>
#include <string>

#include "graph/csc.hpp"

namespace foregather {
namespace {

void check_rows_shape(std::span<const std::int64_t> indptr, std::size_t indices, std::size_t keep) {
  const bool whole = !indptr.empty() && indptr.front() == 0 &&
                     static_cast<std::size_t>(indptr.back()) == indices &&
                     std::is_sorted(indptr.begin(), indptr.end());
  if (!whole || keep != indices) {
    throw InputError("indptr does not describe the " + std::to_string(indices) +
                     " entries of indices, or keep (" + std::to_string(keep) +
                     " entries) does not match them");
  }
}

}  // namespace

template <typename Id>
std::int64_t dedup_rows(std::span<const std::int64_t> indptr, std::span<const Id> indices,
                        std::span<std::uint8_t> keep) {
  check_rows_shape(indptr, indices.size(), keep.size());
  std::int64_t removed = 0;
  for (std::size_t v = 0; v + 1 < indptr.size(); ++v) {
    const std::int64_t begin = indptr[v], end = indptr[v + 1];
    if (begin < end) keep[begin] = 1;
    for (std::int64_t k = begin + 1; k < end; ++k) {
      const bool fresh = indices[k] != indices[k - 1];
      keep[k] = fresh;
      removed += !fresh;
    }
  }
  return removed;
}

template <typename Id>
std::int64_t compact_rows(std::span<const std::int64_t> indptr, std::span<Id> indices,
                          std::span<const std::uint8_t> keep, std::span<std::int64_t> new_indptr) {
  check_rows_shape(indptr, indices.size(), keep.size());
  if (new_indptr.size() != indptr.size()) {
    throw InputError("new_indptr has " + std::to_string(new_indptr.size()) + " entries, expected " +
                     std::to_string(indptr.size()));
  }
  std::int64_t kept = 0, k = 0;
  for (std::size_t v = 0; v + 1 < indptr.size(); ++v) {
    const std::int64_t end = indptr[v + 1];  // read before new_indptr, which may be the same memory
    new_indptr[v] = kept;
    for (; k < end; ++k) {
      indices[kept] = indices[k];
      kept += keep[k] != 0;
    }
  }
  new_indptr[indptr.size() - 1] = kept;
  return kept;
}

#define FOREGATHER_ROWS(Id)                                                                \
  template std::int64_t dedup_rows<Id>(std::span<const std::int64_t>, std::span<const Id>, \
                                       std::span<std::uint8_t>);                           \
  template std::int64_t compact_rows<Id>(std::span<const std::int64_t>, std::span<Id>,     \
                                         std::span<const std::uint8_t>, std::span<std::int64_t>);
FOREGATHER_ROWS(std::uint32_t)
FOREGATHER_ROWS(std::int64_t)
#undef FOREGATHER_ROWS

}  // namespace foregather
