// Text: delimited lines (csv, tsv, edge lists, feature tables) into arrays.
//
// A parser gets a piece of a file that starts at the start of a line and ends at the end of one,
// and arrays to fill. It stops at the end of the text or when the arrays are full, and says how
// far it got; the caller continues from there. Nothing is allocated per line.
//
// Lines end with LF or CRLF; the last one may have no end. Blank lines hold nothing and are
// skipped, as are comment lines (first character after blanks is # or %) if `comments` is set.
// Fields are separated by `delimiter`; ' ' stands for any run of blanks (spaces and tabs), and
// blanks at both ends of a line then mean nothing. Blanks around a field are not part of it.
// A field that starts with " runs to the closing " of the same line, "" inside stands for one ",
// and nothing but blanks may follow before the next delimiter. A field is never continued on the
// next line.
//
// Integers are decimal with an optional sign; a fraction of zeros ("3.0", as a spreadsheet or a
// table with gaps writes it) is accepted, an exponent, another fraction or NaN is not. Numbers
// follow std::from_chars with an optional plus; one too large for its type is an error, one too
// small becomes zero. Columns count from 0 in calls and from 1 in messages.
//
// Every error is an InputError that names file, line and column:
//     edges.csv line 17 has 'abc' in column 1, expected an integer id
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace foregather {

/// A piece of a delimited file and how to read it.
struct TextPiece {
  std::string_view text;         ///< whole lines
  std::string_view name;         ///< of the file, for messages
  std::int64_t first_line = 1;   ///< number of the first line of `text`; line 1 may have a BOM
  std::int64_t skip_before = 0;  ///< lines with a smaller number are skipped (a header)
  char delimiter = ',';          ///< one of , ; | : tab, or ' ' for any run of blanks
  bool comments = true;          ///< skip lines that start with # or %
};

/// How far a parser got.
struct TextTaken {
  std::int64_t rows = 0;   ///< rows written to the output
  std::int64_t lines = 0;  ///< lines consumed, including comments and blank ones
  std::size_t bytes = 0;   ///< bytes consumed: the rest starts at text[bytes]
  std::int64_t names = 0;  ///< strings written (parse_strings only)
};

/// A column of weights next to the ids; `column` < 0 = none. Weights must be finite.
struct WeightColumn {
  int column = -1;
  std::span<float> out;  ///< one for each row of capacity
};

/// Where parse_strings puts the distinct strings it meets.
struct NameBuffer {
  std::span<std::uint8_t> data;     ///< at least text.size() bytes
  std::span<std::int64_t> offsets;  ///< at least columns * capacity + 1
  std::span<std::uint64_t> keys;    ///< at least columns * capacity
};

/// Reads the given columns of every line as int64.
///
/// `out` holds columns.size() runs of `capacity` = out.size() / columns.size() values: the value
/// of columns[c] in row r goes to out[c * capacity + r]. Other columns are not looked at.
TextTaken parse_integers(const TextPiece& piece, std::span<const int> columns,
                         std::span<std::int64_t> out, WeightColumn weight = {});

/// Reads the given columns of every line as text and writes their XXH64 keys (seed 0).
///
/// `keys` is laid out as `out` above. The strings themselves go to `names` back to back: string i
/// is data[offsets[i] .. offsets[i + 1]), with keys[i]. Each distinct string of the piece is there
/// at least once; most repeats are left out (by comparing the text, so two strings with one key are
/// both there). An empty field or one that is not UTF-8 is an error.
TextTaken parse_strings(const TextPiece& piece, std::span<const int> columns,
                        std::span<std::uint64_t> keys, NameBuffer names, WeightColumn weight = {});

/// Reads lines of exactly `width` numbers into row-major `out` (capacity out.size() / width).
///
/// An empty field is NaN; a blank line holds nothing and is skipped, even if `width` is 1.
template <typename Number>  // float or double
TextTaken parse_numbers(const TextPiece& piece, int width, std::span<Number> out);

/// The fields of one line, as the parsers see them.
std::vector<std::string> split_fields(std::string_view line, char delimiter);

}  // namespace foregather
