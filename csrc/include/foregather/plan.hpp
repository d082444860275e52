// Plan: which bytes move when, for one bulk of minibatches; a value without state.
//
// A step is one minibatch. In step t, first all hits of t are copied from their slots to the
// output, then the rows that the requests of t bring are copied to the output, to a slot, or both.
// A slot written in a step may be one that a hit of the same step reads (hits come first), never
// one that another copy of the same step writes. Every output row occurs exactly once over hits
// and copies. After a step, a slot holds the row last written to it; plans run back to back as if
// they were one, so the cache is carried over.
//
// Requests of a step ascend and are disjoint; offset and length are multiples of 4096 inside the
// file; a request covers every row that is copied out of it. Nothing here says how far ahead
// requests may be made: reading early is safe, copying is not.
#pragma once

#include <cstdint>
#include <vector>

namespace foregather {

inline constexpr std::uint32_t kNone = 0xffffffffu;

struct Geometry {            ///< where rows lie in their file
  std::int64_t num_rows;     ///< below 2^32 - 1
  std::int64_t row_bytes;    ///< of the stored dtype
  std::int64_t payload;      ///< byte of row 0 in the file
  std::int64_t file_bytes;   ///< size of the file; requests end at or before it
  std::int64_t block_bytes;  ///< unit of reading, a multiple of 4096, counted from byte 0
};

struct Plan {  ///< S steps, R requests
  Geometry geometry;
  std::int64_t num_slots;
  std::vector<std::int64_t> num_rows;                        ///< [S] rows of each output
  std::vector<std::int64_t> hit_ptr;                         ///< [S + 1]
  std::vector<std::uint32_t> hit_slot, hit_position;         ///< slot -> output row
  std::vector<std::int64_t> request_ptr;                     ///< [S + 1]
  std::vector<std::int64_t> request_offset, request_length;  ///< [R] bytes
  std::vector<std::int64_t> copy_ptr;                        ///< [R + 1]
  std::vector<std::uint32_t> copy_row;                       ///< row id
  std::vector<std::uint32_t> copy_position;  ///< output row, or kNone: a free rider
  std::vector<std::uint32_t> copy_slot;      ///< slot it is kept in, or kNone
};

}  // namespace foregather
