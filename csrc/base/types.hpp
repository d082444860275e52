// Types: the memory layout every other header relies on, defined once.
//
// Topology is CSC: the in-neighbours (sources) of target v are
//     indices[indptr[v] .. indptr[v + 1])
// with indptr of N + 1 int64 entries, indptr[0] == 0, indptr[N] == E, and indices of E ids that
// are uint32 while N < 2^32 and int64 beyond. Inside a row the sources ascend; equal sources
// (parallel edges) keep the order in which the edges were given.
//
// Matrices are dense and row-major: element (i, j) of an n x d matrix is x[i * d + j].
// All byte counts are std::size_t, all edge positions std::int64_t, all vertex ids VertexId or
// int64. A span never owns; the caller keeps the memory alive for the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace foregather {

using VertexId = std::uint32_t;     ///< a vertex while N < 2^32
using EdgePosition = std::int64_t;  ///< a position in `indices`

/// Largest vertex count whose ids are stored as uint32: the id 2^32 - 1 is never used, so that it
/// can mean "none".
inline constexpr std::int64_t kMaxNarrowVertices = (std::int64_t{1} << 32) - 1;

/// Thrown for data that breaks a contract stated in a header; becomes InputError in Python.
struct InputError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// Thrown when the operating system refuses an operation; becomes StorageError in Python.
struct StorageError : std::runtime_error {
  StorageError(const std::string& what, int error) : std::runtime_error(what), code(error) {}
  int code;  ///< errno of the failed call
};

/// Thrown for a stored file whose contents break the format; becomes FormatError in Python.
struct FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Thrown where a memory budget cannot hold the work; becomes BudgetError in Python.
struct BudgetError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace foregather
