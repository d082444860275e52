#include "graph/text/text.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/hash.hpp"
#include "graph/text/strings.hpp"

namespace foregather {
namespace {

bool blank(char c) { return c == ' ' || c == '\t'; }
bool digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

// ---- errors --------------------------------------------------------------------------------

std::string quoted(std::string_view field) {
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

std::size_t unquote(const Field& field, std::uint8_t* out) {
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

std::int64_t integer(const Field& field, int column, const Place& place) {
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
    long double wide = 0;
    code = std::from_chars(text.data(), end, wide).ec;
    if (code != std::errc() || std::fabs(wide) > std::numeric_limits<Number>::max()) {
      place.fail(column, field.text, "a number that fits its type");
    }
    return static_cast<Number>(wide);
  }
  if (code != std::errc() || stop != end) place.fail(column, field.text, "a number");
  return value;
}

float weight_of(Fields& fields, int column, const Place& place) {
  float value = 0;
  if (fields.fast_number(value)) return value;
  const Field field = fields.next();
  value = number<float>(field, column, place);
  if (!std::isfinite(value)) place.fail(column, field.text, "a finite weight");
  return value;
}

// ---- all lines -----------------------------------------------------------------------------

void check_delimiter(char delimiter) {
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

constexpr int kIgnored = -1;
constexpr int kWeight = -2;

// What to do with each column up to the last one wanted: an output slot, kIgnored or kWeight.
std::vector<int> roles(std::span<const int> columns, const WeightColumn& weight,
                       std::int64_t capacity) {
  constexpr int kMostColumns = 1 << 16;
  std::vector<int> role;
  auto assign = [&](int column, int what) {
    if (column < 0 || column >= kMostColumns) {
      throw InputError("column " + std::to_string(column) + " is not between 0 and 65535");
    }
    if (static_cast<std::size_t>(column) >= role.size()) {
      role.resize(static_cast<std::size_t>(column) + 1, kIgnored);
    }
    if (role[static_cast<std::size_t>(column)] != kIgnored) {
      throw InputError("column " + std::to_string(column + 1) + " is asked for twice");
    }
    role[static_cast<std::size_t>(column)] = what;
  };
  for (std::size_t c = 0; c < columns.size(); ++c) assign(columns[c], static_cast<int>(c));
  if (weight.column >= 0) {
    assign(weight.column, kWeight);
    if (static_cast<std::int64_t>(weight.out.size()) < capacity) {
      throw InputError("the weight array is shorter than the id arrays");
    }
  }
  return role;
}

// Calls id(slot, column, fields, place, r) for the id columns of each line and fills the weights.
template <typename Id>
TextTaken each_edge(const TextPiece& piece, std::span<const int> columns, std::size_t size,
                    const WeightColumn& weight, Id id) {
  if (columns.empty()) throw InputError("no columns were asked for");
  const auto capacity = static_cast<std::int64_t>(size / columns.size());
  const std::vector<int> role = roles(columns, weight, capacity);
  const int wanted = static_cast<int>(role.size());
  return each_line(piece, capacity, [&](Fields& fields, const Place& place, std::int64_t r) {
    for (int column = 0; column < wanted; ++column) {
      if (!fields.more()) place.fail_count(column, "at least ", wanted);
      const int slot = role[static_cast<std::size_t>(column)];
      if (slot >= 0) {
        id(slot * capacity + r, column, fields, place);
      } else if (slot == kWeight) {
        weight.out[static_cast<std::size_t>(r)] = weight_of(fields, column, place);
      } else {
        fields.next();
      }
    }
  });
}

}  // namespace

// ---- the parsers ---------------------------------------------------------------------------

TextTaken parse_integers(const TextPiece& piece, std::span<const int> columns,
                         std::span<std::int64_t> out, WeightColumn weight) {
  return each_edge(piece, columns, out.size(), weight,
                   [&](std::int64_t at, int column, Fields& fields, const Place& place) {
                     std::int64_t& value = out[static_cast<std::size_t>(at)];
                     if (!fields.fast_integer(value)) value = integer(fields.next(), column, place);
                   });
}

TextTaken parse_strings(const TextPiece& piece, std::span<const int> columns,
                        std::span<std::uint64_t> keys, NameBuffer names, WeightColumn weight) {
  if (names.data.size() < piece.text.size() || names.offsets.size() < keys.size() + 1) {
    throw InputError("the buffers for names are smaller than parse_strings needs");
  }
  // Direct-mapped: the last string met for each slot. Skewed graphs repeat their hubs.
  // The key is compared first, which spares most lookups of the text.
  struct Met {
    std::uint64_t key = 0;
    std::int64_t index = -1;
  };
  constexpr std::size_t kSlots = 1 << 12;
  std::vector<Met> last(kSlots);
  std::int64_t count = 0;
  std::size_t used = 0;
  names.offsets[0] = 0;
  TextTaken taken = each_edge(
      piece, columns, keys.size(), weight,
      [&](std::int64_t at, int column, Fields& fields, const Place& place) {
        const Field field = fields.next();
        if (!field.sound) place.fail(column, field.text, "a closed quote and then the next field");
        if (field.text.empty()) place.fail(column, field.text, "an id");
        std::uint8_t* text = names.data.data() + used;
        const std::size_t length = unquote(field, text);
        if (!is_utf8({reinterpret_cast<const char*>(text), length})) {
          place.fail(column, field.text, "UTF-8 text");
        }
        const std::uint64_t key = xxh64({reinterpret_cast<const std::byte*>(text), length});
        keys[static_cast<std::size_t>(at)] = key;
        Met& met = last[key % kSlots];
        if (met.index >= 0 && met.key == key) {
          const auto from = static_cast<std::size_t>(names.offsets[met.index]);
          const auto to = static_cast<std::size_t>(names.offsets[met.index + 1]);
          if (to - from == length && !std::memcmp(names.data.data() + from, text, length)) return;
        }
        used += length;
        met = {key, count};
        names.offsets[++count] = static_cast<std::int64_t>(used);
      });
  taken.names = count;
  return taken;
}

template <typename Number>
TextTaken parse_numbers(const TextPiece& piece, int width, std::span<Number> out) {
  if (width < 1) throw InputError("width is " + std::to_string(width) + ", expected at least 1");
  const auto capacity = static_cast<std::int64_t>(out.size()) / width;
  return each_line(piece, capacity, [&](Fields& fields, const Place& place, std::int64_t r) {
    Number* row = out.data() + r * width;
    int column = 0;
    for (; column < width && fields.more(); ++column) {
      if (fields.fast_number(row[column])) continue;
      row[column] = number<Number>(fields.next(), column, place);
    }
    if (column == width && !fields.more()) return;
    while (fields.more()) fields.next(), ++column;
    place.fail_count(column, "", width);
  });
}

template TextTaken parse_numbers(const TextPiece&, int, std::span<float>);
template TextTaken parse_numbers(const TextPiece&, int, std::span<double>);

std::vector<std::string> split_fields(std::string_view line, char delimiter) {
  check_delimiter(delimiter);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  std::vector<std::string> out;
  for (Fields fields(line, delimiter); fields.more();) {
    const Field field = fields.next();
    std::string text(field.text.size(), '\0');
    text.resize(unquote(field, reinterpret_cast<std::uint8_t*>(text.data())));
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace foregather
