#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "graph/text/strings.hpp"
#include "graph/text/table.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

struct Room {
  explicit Room(std::size_t rows, std::size_t width, std::size_t kinds, std::size_t text)
      : lines(rows),
        ids(rows),
        times(rows),
        offsets(rows + 1),
        keys(rows),
        held(rows),
        data(text),
        numbers(rows * width),
        classes(rows * kinds) {}
  TableRows rows() { return {lines, ids, keys, {data, offsets, held}, numbers, classes, times}; }
  std::vector<std::int64_t> lines, ids, times, offsets;
  std::vector<std::uint64_t> keys, held;
  std::vector<std::uint8_t> data;
  std::vector<double> numbers;
  std::vector<std::int32_t> classes;
};

void reads_every_kind() {
  const std::string text =
      "id,x,kind,when,y,note\n"
      "ann,0.5,a,2020-01-02,7,\"one, two\"\n"
      "\n"
      "\"b\"\"b\",,b,,8,\n"
      "ann,1e3,,2020-01-02T00:00:01,nan,x\n"
      "c,-1,a,1969-12-31,9,y\n";
  TableColumns columns{6, 0, true, 3, true, {4, 1}, {2}};
  std::vector<Classes> known(1);
  Room room(4, 2, 1, text.size());
  TextPiece piece{text, "n.csv"};
  piece.skip_before = 2;
  const TextTaken taken = parse_table(piece, columns, room.rows(), known);
  CHECK(taken.rows == 4 && taken.bytes == text.size() && taken.names == 3);
  CHECK((room.lines == std::vector<std::int64_t>{2, 4, 5, 6}));
  CHECK(room.numbers[0] == 7 && room.numbers[1] == 0.5 && std::isnan(room.numbers[3]));
  CHECK(std::isnan(room.numbers[4]) && room.numbers[5] == 1000 && room.numbers[7] == -1);
  CHECK((room.classes == std::vector<std::int32_t>{0, 1, -1, 0}));
  CHECK((known[0].names() == std::vector<std::string>{"a", "b"}));
  CHECK(room.keys[0] == room.keys[2] && room.keys[0] != room.keys[1]);
  CHECK(room.times[1] == kNoTime && room.times[2] - room.times[0] == 1'000'000);
  CHECK(room.times[3] == -86'400'000'000);
  const std::string names(room.data.begin(), room.data.begin() + room.offsets[3]);
  CHECK(names == "annb\"bc");
}

void refuses() {
  const TableColumns columns{3, 0, false, 2, false, {1}, {}};
  Room room(2, 1, 0, 100);
  for (const char* bad : {"a,1,2", "1,x,2", "1,1,2.5", "1,1", "1,1,2,3", ",1,2", "1,1,\"2",
                          "1,1,-9223372036854775808", "1,1,2020-01-01"}) {
    CHECK_THROWS(parse_table({bad, "n"}, columns, room.rows(), {}), InputError);
  }
  CHECK(parse_table({"1,,\n2,3,4\n", "n"}, columns, room.rows(), {}).rows == 2);
  CHECK(room.ids[1] == 2 && room.times[0] == kNoTime && room.times[1] == 4);
  for (TableColumns wrong :
       {TableColumns{2, 2, false, -1, false, {}, {}}, TableColumns{2, 0, false, 0, false, {}, {}},
        TableColumns{2, 0, false, -1, false, {}, {1}},
        TableColumns{3, 0, false, -1, false, {1, 2}, {}}}) {
    CHECK_THROWS(parse_table({"1,2,3", "n"}, wrong, room.rows(), {}), InputError);
  }
  const TableColumns two{2, 0, false, -1, false, {}, {1}};
  std::vector<Classes> known(1);
  Room wide(1, 0, 1, 0);
  const std::string most = "1," + std::string(1000, 'x'), more = most + "x";
  CHECK(parse_table({most, "n"}, two, wide.rows(), known).rows == 1);
  CHECK_THROWS(parse_table({more, "n"}, two, wide.rows(), known), InputError);
  Classes many;
  for (std::size_t i = 0; i < Classes::kMost; ++i) many.number(std::to_string(i));
  CHECK(many.number("7") == 7 && !many.number("one more"));
}

void reads_times() {
  CHECK(parse_time("1970-01-01") == 0 && parse_time("1970-01-02 00:00") == 86'400'000'000);
  CHECK(parse_time("2024-02-29T12:30:15.250000000Z") == 1'709'209'815'250'000);
  CHECK(parse_time("1970-01-01T01:00+01:00") == 0 && parse_time("1969-12-31T23:00-01:00") == 0);
  for (const char* bad : {"", "1970", "1970-1-1", "2023-02-29", "2024-13-01", "2024-00-01",
                          "2024-01-01X", "2024-01-01T", "2024-01-01T24:00", "2024-01-01T12:60",
                          "2024-01-01T12:30:60", "2024-01-01T12:30:15.", "2024-01-01T12:30:15z",
                          "2024-01-01T12:30:15.0000001", "2024-01-01T12:30+1", "NaT", "20240101"}) {
    CHECK(!parse_time(bad));
  }
}

void survives_noise() {
  const std::string alphabet = "0123456789-:.T,;\t \"\n\r#naZ\xC3\xA9\xFFx";
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 60, ' ');
    for (char& c : text) c = random() % 16 ? alphabet[random() % alphabet.size()] : char(random());
    std::vector<char> exact(text.begin(), text.end());  // so that ASan sees one byte too many
    TextPiece piece{{exact.data(), exact.size()}, "noise"};
    piece.delimiter = ",;\t |:"[random() % 6];
    const bool named = random() % 2, dates = random() % 2;
    const TableColumns columns{3, 0, named, 1, dates, {}, {2}};
    std::vector<Classes> known(1);
    Room room(random() % 9, 0, 1, exact.size());
    try {
      const TextTaken taken = parse_table(piece, columns, room.rows(), known);
      CHECK(taken.bytes == text.size() || taken.rows == std::int64_t(room.lines.size()));
    } catch (const InputError&) {
    }
    parse_time(text);
  }
}

}  // namespace

int main() {
  reads_every_kind();
  refuses();
  reads_times();
  survives_noise();
  return 0;
}
