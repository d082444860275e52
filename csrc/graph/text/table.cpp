#include "graph/text/table.hpp"

#include <chrono>

#include "graph/text/fields.hpp"
#include "graph/text/name_sink.hpp"

namespace foregather {

using namespace text;

namespace {

// Takes exactly `digits` digits off the front.
std::optional<int> digits_of(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  for (char c : text.substr(0, digits)) {
    if (!digit(c)) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

// hh:mm, as minutes; `most` is the largest hour.
std::optional<std::int64_t> minutes_of(std::string_view& text, int most) {
  const auto hour = digits_of(text, 2);
  if (!hour || *hour > most || !take(text, ':')) return std::nullopt;
  const auto minute = digits_of(text, 2);
  if (!minute || *minute > 59) return std::nullopt;
  return *hour * 60 + *minute;
}

// What follows the minutes: [:ss[.ffffff]], as microseconds.
std::optional<std::int64_t> seconds_of(std::string_view& text) {
  if (!take(text, ':')) return 0;
  const auto second = digits_of(text, 2);
  if (!second || *second > 59) return std::nullopt;
  std::int64_t micros = *second * std::int64_t{1'000'000};
  if (!take(text, '.')) return micros;
  std::int64_t unit = 100'000;
  if (text.empty() || !digit(text[0])) return std::nullopt;
  for (; !text.empty() && digit(text[0]); text.remove_prefix(1), unit /= 10) {
    if (unit == 0 && text[0] != '0') return std::nullopt;
    micros += (text[0] - '0') * unit;
  }
  return micros;
}

// What follows the time: nothing, Z or an offset, as minutes east of Greenwich.
std::optional<std::int64_t> offset_of(std::string_view& text) {
  if (text.empty() || take(text, 'Z')) return 0;
  const bool west = take(text, '-');
  if (!west && !take(text, '+')) return std::nullopt;
  const auto minutes = minutes_of(text, 23);
  if (!minutes) return std::nullopt;
  return west ? -*minutes : *minutes;
}

enum Kind { kIgnored, kId, kTime, kNumber, kClass };

struct Role {
  Kind kind = kIgnored;
  std::size_t slot = 0;  // among the columns of its kind
};

std::vector<Role> roles(const TableColumns& columns) {
  std::vector<Role> found(static_cast<std::size_t>(std::max(0, columns.count)));
  const auto assign = [&](int column, Kind kind, std::size_t slot) {
    if (column < 0 || column >= columns.count) {
      throw InputError("column " + std::to_string(column) + " is not one of the " +
                       std::to_string(columns.count) + " of the table");
    }
    Role& role = found[static_cast<std::size_t>(column)];
    if (role.kind != kIgnored) {
      throw InputError("column " + std::to_string(column + 1) + " is asked for twice");
    }
    role = {kind, slot};
  };
  assign(columns.id, kId, 0);
  if (columns.time >= 0) assign(columns.time, kTime, 0);
  for (std::size_t k = 0; k < columns.numbers.size(); ++k) assign(columns.numbers[k], kNumber, k);
  for (std::size_t k = 0; k < columns.classes.size(); ++k) assign(columns.classes[k], kClass, k);
  return found;
}

std::string plain(const Field& field) {
  std::string name(field.text.size(), '\0');
  name.resize(unquote(field, reinterpret_cast<std::uint8_t*>(name.data())));
  return name;
}

std::int32_t class_of(const Field& field, int column, const Place& place, Classes& known) {
  if (!field.sound) place.fail(column, field.text, "a closed quote and then the next field");
  if (field.text.empty()) return -1;
  if (!is_utf8(field.text)) place.fail(column, field.text, "UTF-8 text");
  if (field.text.size() > Classes::kMostBytes) {
    place.fail(column, field.text, "the name of a class, of at most 1000 bytes");
  }
  const auto number = known.number(plain(field));
  if (!number) place.fail(column, field.text, "one of at most 65536 classes");
  return *number;
}

std::int64_t time_of(const Field& field, bool dates, int column, const Place& place) {
  if (field.text.empty()) return kNoTime;
  if (!dates) {
    const std::int64_t value = integer(field, column, place);
    if (value == kNoTime) place.fail(column, field.text, "a time above the smallest integer");
    return value;
  }
  const auto value = field.sound ? parse_time(field.text) : std::nullopt;
  if (!value) place.fail(column, field.text, "a date such as 2024-02-29 or 2024-02-29T12:30:00");
  return *value;
}

void check_room(const TextPiece& piece, const TableColumns& columns, const TableRows& rows,
                std::span<Classes> known) {
  const std::size_t room = rows.lines.size();
  const bool named = !columns.text_ids ||
                     (rows.names.data.size() >= piece.text.size() &&
                      rows.names.offsets.size() >= room + 1 && rows.names.keys.size() >= room);
  if (!named || (columns.text_ids ? rows.keys.size() : rows.ids.size()) < room ||
      rows.numbers.size() < room * columns.numbers.size() ||
      rows.classes.size() < room * columns.classes.size() ||
      (columns.time >= 0 && rows.times.size() < room) || known.size() != columns.classes.size()) {
    throw InputError("the arrays for a table are smaller than parse_table needs");
  }
}

}  // namespace

std::optional<std::int64_t> parse_time(std::string_view text) {
  const auto year = digits_of(text, 4);
  if (!year || !take(text, '-')) return std::nullopt;
  const auto month = digits_of(text, 2);
  if (!month || !take(text, '-')) return std::nullopt;
  const auto day = digits_of(text, 2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  constexpr std::int64_t kMinute = 60'000'000;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t start = days * 24 * 60 * kMinute;
  if (text.empty()) return start;
  if (!take(text, 'T') && !take(text, ' ')) return std::nullopt;
  const auto minutes = minutes_of(text, 23);
  if (!minutes) return std::nullopt;
  const auto micros = seconds_of(text);
  if (!micros) return std::nullopt;
  const auto offset = offset_of(text);
  if (!offset || !text.empty()) return std::nullopt;
  return start + (*minutes - *offset) * kMinute + *micros;
}

std::optional<std::int32_t> Classes::number(const std::string& name) {
  const auto known = numbers_.find(name);
  if (known != numbers_.end()) return known->second;
  if (names_.size() == kMost) return std::nullopt;
  const auto number = static_cast<std::int32_t>(names_.size());
  numbers_.emplace(name, number);
  names_.push_back(name);
  return number;
}

TextTaken parse_table(const TextPiece& piece, const TableColumns& columns, const TableRows& rows,
                      std::span<Classes> known) {
  const std::vector<Role> role = roles(columns);
  check_room(piece, columns, rows, known);
  const std::size_t width = columns.numbers.size(), kinds = columns.classes.size();
  std::optional<NameSink> sink;
  if (columns.text_ids) sink.emplace(rows.names);
  const auto capacity = static_cast<std::int64_t>(rows.lines.size());
  TextTaken taken =
      each_line(piece, capacity, [&](Fields& fields, const Place& place, std::int64_t row) {
        const auto r = static_cast<std::size_t>(row);
        rows.lines[r] = place.line;
        int column = 0;
        for (; column < columns.count && fields.more(); ++column) {
          const auto [kind, slot] = role[static_cast<std::size_t>(column)];
          switch (kind) {
            case kIgnored:
              fields.next();
              break;
            case kId:
              if (sink) {
                rows.keys[r] = sink->put(fields.next(), column, place);
              } else if (!fields.fast_integer(rows.ids[r])) {
                rows.ids[r] = integer(fields.next(), column, place);
              }
              break;
            case kTime:
              rows.times[r] = time_of(fields.next(), columns.dates, column, place);
              break;
            case kNumber: {
              double& value = rows.numbers[r * width + slot];
              if (!fields.fast_number(value)) value = number<double>(fields.next(), column, place);
              break;
            }
            case kClass:
              rows.classes[r * kinds + slot] = class_of(fields.next(), column, place, known[slot]);
              break;
          }
        }
        if (column == columns.count && !fields.more()) return;
        while (fields.more()) fields.next(), ++column;
        place.fail_count(column, "", columns.count);
      });
  taken.names = sink ? sink->count() : 0;
  return taken;
}

}  // namespace foregather
