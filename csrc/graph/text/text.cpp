#include "graph/text/text.hpp"

#include <cmath>
#include <cstring>

#include "graph/text/fields.hpp"
#include "graph/text/name_sink.hpp"

namespace foregather {

using namespace text;

namespace {

float weight_of(Fields& fields, int column, const Place& place) {
  float value = 0;
  if (fields.fast_number(value)) return value;
  const Field field = fields.next();
  value = number<float>(field, column, place);
  if (!std::isfinite(value)) place.fail(column, field.text, "a finite weight");
  return value;
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
  if (names.data.size() < piece.text.size() || names.offsets.size() < keys.size() + 1 ||
      names.keys.size() < keys.size()) {
    throw InputError("the buffers for names are smaller than parse_strings needs");
  }
  NameSink sink(names);
  TextTaken taken = each_edge(piece, columns, keys.size(), weight,
                              [&](std::int64_t at, int column, Fields& fields, const Place& place) {
                                keys[static_cast<std::size_t>(at)] =
                                    sink.put(fields.next(), column, place);
                              });
  taken.names = sink.count();
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
