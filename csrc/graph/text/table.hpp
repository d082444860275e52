// Table: the rows of a node table in delimited text: ids, numbers, classes and times.
//
// The text is read as text.hpp says, with one rule more: every line has exactly as many columns as
// the table. An empty number is NaN, an empty class is -1, an empty time is kNoTime; an id is never
// empty. Classes are numbered in the order in which they are met, and `Classes` keeps their names.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/text/text.hpp"

namespace foregather {

constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::min();

/// Microseconds since 1970-01-01 of an ISO 8601 date (2024-02-29) or date and time (after a T or
/// a blank: 12:30, 12:30:15, 12:30:15.25; then nothing, Z or an offset such as +01:00). Nothing
/// where it is neither, does not exist (February 30), or is finer than a microsecond.
std::optional<std::int64_t> parse_time(std::string_view text);

/// The different texts of one column, numbered in the order in which they are met.
class Classes {
 public:
  static constexpr std::size_t kMost = 1 << 16;
  static constexpr std::size_t kMostBytes = 1000;  ///< of one of them

  /// The number of `name`, a new one where it has none; nothing where there are kMost already.
  std::optional<std::int32_t> number(const std::string& name);
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::vector<std::string> names_;
};

/// Which columns (from 0) of a table hold what.
struct TableColumns {
  int count = 0;             ///< columns of every line
  int id = 0;                ///< ids
  bool text_ids = false;     ///< as text, otherwise as integers
  int time = -1;             ///< times, or -1
  bool dates = false;        ///< as dates, otherwise as integers
  std::vector<int> numbers;  ///< numbers
  std::vector<int> classes;  ///< texts that stand for classes
};

/// Arrays to fill; `lines` decides how many rows there is room for (capacity).
struct TableRows {
  std::span<std::int64_t> lines;    ///< the number of each row's line
  std::span<std::int64_t> ids;      ///< integer ids [capacity], or nothing
  std::span<std::uint64_t> keys;    ///< XXH64 of text ids [capacity], or nothing
  NameBuffer names;                 ///< of text ids, see parse_strings
  std::span<double> numbers;        ///< [capacity, numbers]
  std::span<std::int32_t> classes;  ///< [capacity, classes]
  std::span<std::int64_t> times;    ///< [capacity], or nothing
};

/// Reads rows until the text ends or the arrays are full. `known` has one entry for each column of
/// classes. Throws InputError with line and column where a field is not what it should be.
TextTaken parse_table(const TextPiece& piece, const TableColumns& columns, const TableRows& rows,
                      std::span<Classes> known);

}  // namespace foregather
