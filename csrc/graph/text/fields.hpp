// Fields: the lines of a piece of text and the fields of a line, as every parser here sees them.
//
// The rules are those of text.hpp. Nothing is allocated per line; a field is a view of the text.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "base/types.hpp"
#include "graph/text/text.hpp"

namespace foregather::text {

inline bool blank(char c) { return c == ' ' || c == '\t'; }
inline bool digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

// ---- errors --------------------------------------------------------------------------------

inline std::string quoted(std::string_view field) {
  constexpr std::size_t kMost = 40;
  std::string shown = "'";
  for (char c : field.substr(0, kMost)) shown += (c >= ' ' && c < 127) ? c : '?';
  return shown + (field.size() > kMost ? "...'" : "'");
}

struct Place {
  const TextPiece& piece;
  std::int64_t line;

  std::string here() const {
    return std::string(piece.name) + " line " + std::to_string(line) + " has ";
  }
  [[noreturn]] void fail(int column, std::string_view field, const char* expected) const {
    throw InputError(here() + (field.empty() ? "nothing" : quoted(field)) + " in column " +
                     std::to_string(column + 1) + ", expected " + expected);
  }
  [[noreturn]] void fail_count(int columns, const char* relation, int expected) const {
    throw InputError(here() + std::to_string(columns) + (columns == 1 ? " column" : " columns") +
                     ", expected " + relation + std::to_string(expected));
  }
};

// ---- one line ------------------------------------------------------------------------------

struct Field {
  std::string_view text;  ///< without blanks around it and without its outer quotes
  bool doubled = false;   ///< "" inside stands for "
  bool sound = true;      ///< false: the quote is not closed, or something follows it
};

// Walks over the fields of one line. `more` says whether another field follows: in a delimited
// line "a," there are two, in a line of blanks none.
class Fields {
 public:
  Fields(std::string_view line, char delimiter)
      : p_(line.data()), end_(p_ + line.size()), delimiter_(delimiter), runs_(delimiter == ' ') {
    skip_blanks();
    more_ = !(runs_ && p_ == end_);
  }

  bool more() const { return more_; }

  // The common case in one pass: 1 to 18 digits, then the delimiter or the end of the line.
  // False leaves the field unread.
  bool fast_integer(std::int64_t& value) {
    const char* q = p_;
    std::uint64_t sum = 0;
    while (q < end_ && digit(*q)) sum = sum * 10 + static_cast<unsigned char>(*q++ - '0');
    if (q == p_ || q - p_ > 18 || !ends_field(q)) return false;
    value = static_cast<std::int64_t>(sum);
    finish(q);
    return true;
  }

  // The same for a finite number.
  template <typename Number>
  bool fast_number(Number& value) {
    const auto [q, code] = std::from_chars(p_, end_, value);
    if (code != std::errc() || !std::isfinite(value) || !ends_field(q)) return false;
    finish(q);
    return true;
  }

  Field next() {
    Field field;
    const char* q = p_;
    if (q < end_ && *q == '"') {
      q = close_quote(field);
      while (q < end_ && !ends_field(q)) {
        if (!blank(*q)) field.sound = false;
        ++q;
      }
    } else {
      while (q < end_ && !ends_field(q)) ++q;
      const char* last = q;
      while (last > p_ && blank(last[-1])) --last;
      field.text = {p_, static_cast<std::size_t>(last - p_)};
    }
    finish(q);
    return field;
  }

 private:
  bool ends_field(const char* q) const {
    return q == end_ || (runs_ ? blank(*q) : *q == delimiter_);
  }

  void skip_blanks() {
    while (p_ < end_ && blank(*p_) && (runs_ || *p_ != delimiter_)) ++p_;
  }

  // q is at the delimiter or the end; moves to the next field.
  void finish(const char* q) {
    p_ = q;
    if (p_ == end_) {
      more_ = false;
      return;
    }
    if (!runs_) ++p_;
    skip_blanks();
    more_ = !(runs_ && p_ == end_);
  }

  const char* close_quote(Field& field) {
    const char* first = p_ + 1;
    const char* q = first;
    for (; q < end_; ++q) {
      if (*q != '"') continue;
      if (q + 1 == end_ || q[1] != '"') break;
      field.doubled = true;
      ++q;
    }
    field.text = {first, static_cast<std::size_t>(q - first)};
    if (q == end_) {
      field.sound = false;
      return q;
    }
    return q + 1;
  }

  const char* p_;
  const char* end_;
  char delimiter_;
  bool runs_;
  bool more_ = true;
};

inline std::size_t unquote(const Field& field, std::uint8_t* out) {
  if (!field.doubled) {
    if (!field.text.empty()) std::memcpy(out, field.text.data(), field.text.size());
    return field.text.size();
  }
  std::size_t n = 0;
  for (std::size_t i = 0; i < field.text.size(); ++i) {
    out[n++] = static_cast<std::uint8_t>(field.text[i]);
    if (field.text[i] == '"') ++i;  // close_quote saw that quotes inside come in pairs
  }
  return n;
}

// ---- one field -----------------------------------------------------------------------------

inline std::int64_t integer(const Field& field, int column, const Place& place) {
  const std::string_view text = field.text;
  std::size_t i = (!text.empty() && (text[0] == '-' || text[0] == '+')) ? 1 : 0;
  const std::size_t start = i;
  while (i < text.size() && digit(text[i])) ++i;
  const std::size_t stop = i;
  if (i > start && i < text.size() && text[i] == '.') {
    do ++i;
    while (i < text.size() && text[i] == '0');
  }
  if (!field.sound || stop == start || i != text.size()) {
    place.fail(column, text, "an integer id");
  }
  std::int64_t value = 0;
  const char* first = text.data() + (text[0] == '+' ? 1 : 0);
  if (std::from_chars(first, text.data() + stop, value).ec != std::errc()) {
    place.fail(column, text, "an integer id that fits in 64 bits");
  }
  return value;
}

/// A number that is known to be written well, in a type of a larger range; infinity beyond that.
/// libc++ has no from_chars of long double; strtold reads the same in the locale "C".
inline long double wide_number(std::string_view text) {
  long double wide = 0;
#ifdef _LIBCPP_VERSION
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", locale_t{});
  wide = strtold_l(std::string(text).c_str(), nullptr, plain);
  const bool fits = wide != 0 || text.find_first_of("123456789") >= text.find_first_of("eE");
#else
  const bool fits = std::from_chars(text.data(), text.data() + text.size(), wide).ec == std::errc();
#endif
  return fits ? wide : std::numeric_limits<long double>::infinity();
}

template <typename Number>
Number number(const Field& field, int column, const Place& place) {
  std::string_view text = field.text;
  if (!field.sound) place.fail(column, text, "a number");
  if (text.empty()) return std::numeric_limits<Number>::quiet_NaN();
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* end = text.data() + text.size();
  Number value = 0;
  auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc::result_out_of_range && stop == end) {
    const long double wide = wide_number(text);
    if (std::fabs(wide) > std::numeric_limits<Number>::max()) {
      place.fail(column, field.text, "a number that fits its type");
    }
    return static_cast<Number>(wide);
  }
  if (code != std::errc() || stop != end) place.fail(column, field.text, "a number");
  return value;
}

// ---- all lines -----------------------------------------------------------------------------

inline void check_delimiter(char delimiter) {
  if (delimiter == '\0' || std::strchr(",;|:\t ", delimiter) == nullptr) {
    throw InputError("delimiter is " + quoted({&delimiter, 1}) +
                     ", expected one of , ; | : tab or ' ' for blanks");
  }
}

// Calls row(fields, place, r) for each line that holds something, until `capacity` rows.
template <typename Row>
TextTaken each_line(const TextPiece& piece, std::int64_t capacity, Row row) {
  check_delimiter(piece.delimiter);
  TextTaken taken;
  const char* const begin = piece.text.data();
  const char* const end = begin + piece.text.size();
  const char* p = begin;
  if (piece.first_line == 1 && piece.text.substr(0, 3) == "\xEF\xBB\xBF") p += 3;
  while (p < end && taken.rows < capacity) {
    const void* found = std::memchr(p, '\n', static_cast<std::size_t>(end - p));
    const char* stop = found ? static_cast<const char*>(found) : end;
    const Place place{piece, piece.first_line + taken.lines};
    const char* first = p;
    const char* last = stop;
    while (last > first && last[-1] == '\r') --last;
    while (first < last && blank(*first)) ++first;
    const bool skipped = first == last || place.line < piece.skip_before ||
                         (piece.comments && (*first == '#' || *first == '%'));
    if (!skipped) {
      Fields fields({p, static_cast<std::size_t>(last - p)}, piece.delimiter);
      row(fields, place, taken.rows);
      ++taken.rows;
    }
    p = found ? stop + 1 : end;
    ++taken.lines;
  }
  taken.bytes = static_cast<std::size_t>(p - begin);
  return taken;
}

}  // namespace foregather::text
