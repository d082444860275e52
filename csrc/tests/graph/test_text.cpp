#include <cmath>
#include <random>
#include <string>

#include "base/hash.hpp"
#include "graph/text/strings.hpp"
#include "graph/text/text.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

std::string message(const TextPiece& piece, std::vector<int> columns = {0, 1}) {
  std::vector<std::int64_t> out(64);
  try {
    parse_integers(piece, columns, out);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

void test_integers() {
  std::vector<std::int64_t> out(20, 77);
  const std::vector<int> columns = {2, 0};
  const std::string text =
      "\xEF\xBB\xBF# comment\r\n 1 ,x,-2\r\n\n  \n%\n\"3\",\"a,b\",+4.0,5\n9,,7";
  TextPiece piece{text, "e.csv"};
  TextTaken taken = parse_integers(piece, columns, out);
  CHECK(taken.rows == 3 && taken.lines == 7 && taken.bytes == text.size());
  CHECK(out[0] == -2 && out[1] == 4 && out[2] == 7);
  CHECK(out[10] == 1 && out[11] == 3 && out[12] == 9);

  // A full array stops the parser at a line boundary; the rest is parsed by the next call.
  std::vector<std::int64_t> one(2);
  taken = parse_integers(piece, columns, one);
  CHECK(taken.rows == 1 && taken.lines == 2);
  piece.text.remove_prefix(taken.bytes);
  piece.first_line += taken.lines;
  taken = parse_integers(piece, columns, one);
  CHECK(taken.rows == 1 && one[0] == 4 && one[1] == 3);

  // Runs of blanks, a header, limits of int64.
  std::vector<float> weight(8);
  TextPiece blanks{"from to w\n\t1  \t2 0.5 \n9223372036854775807 -9223372036854775808\t+3\n", "e"};
  blanks.delimiter = ' ';
  blanks.skip_before = 2;
  taken = parse_integers(blanks, std::vector<int>{0, 1}, std::span(out).first(16), {2, weight});
  CHECK(taken.rows == 2 && weight[0] == 0.5f && weight[1] == 3.0f);
  CHECK(out[1] == std::numeric_limits<std::int64_t>::max());
  CHECK(out[9] == std::numeric_limits<std::int64_t>::min());
}

void test_messages() {
  CHECK(message({"1,2\nabc,2\n", "edges.csv"}) ==
        "edges.csv line 2 has 'abc' in column 1, expected an integer id");
  CHECK(message({"1\n", "e"}) == "e line 1 has 1 column, expected at least 2");
  CHECK(message({"1,\n", "e"}) == "e line 1 has nothing in column 2, expected an integer id");
  CHECK(message({"1,9223372036854775808\n", "e"}).find("fits in 64 bits") != std::string::npos);
  for (const char* bad : {"1,nan", "1,3.5", "1,1e3", "1,0x3", "1,.0", "1,-", "1,\"3", "1,\"3\"4",
                          "1,3 4", "1,--3", "1,3..0", "1,\xFF"}) {
    CHECK(message({bad, "e"}).rfind("e line 1 has ", 0) == 0);
  }
  TextPiece odd{"1,2\n", "e"};
  odd.delimiter = '5';
  CHECK(message(odd).rfind("delimiter is '5'", 0) == 0);
  CHECK(message({"1,2", "e"}, {1, 1}) == "column 2 is asked for twice");
}

void test_numbers() {
  std::vector<float> out(6);
  const TextTaken taken =
      parse_numbers<float>({"1.5,nan, -2e-3\n1e-60,,\"+.5\"\n", "f"}, 3, std::span(out));
  CHECK(taken.rows == 2);
  CHECK(out[0] == 1.5f && std::isnan(out[1]) && out[2] == -2e-3f);
  CHECK(out[3] == 0.0f && std::isnan(out[4]) && out[5] == 0.5f);
  std::vector<double> wide(2);
  parse_numbers<double>({"16777217\n-inf\n", "f"}, 1, std::span(wide));
  CHECK(wide[0] == 16777217.0 && std::isinf(wide[1]));
  for (const char* bad : {"1,2", "1,2,3,4", "1,2,3,", "1,2,1e60", "1,2,x", "1,2,+-3", "1,2,3 4"}) {
    CHECK_THROWS(parse_numbers<float>({bad, "f"}, 3, std::span(out)), InputError);
  }
  // More rows than room is not an error: the caller goes on.
  CHECK(parse_numbers<float>({"1\n2\n3\n", "f"}, 1, std::span(out).first(2)).rows == 2);
}

void test_strings() {
  const std::string text = "\"a,\"\"b\"\"\",caf\xC3\xA9\ncaf\xC3\xA9 , x y \n";
  std::vector<std::uint64_t> keys(4), held(4), again(8);
  std::vector<std::uint8_t> data(text.size());
  std::vector<std::int64_t> offsets(5);
  const NameBuffer names{data, offsets, held};
  const TextTaken taken = parse_strings({text, "s"}, std::vector<int>{0, 1}, keys, names);
  CHECK(taken.rows == 2 && taken.names == 3);
  const std::string joined(data.begin(), data.begin() + offsets[3]);
  CHECK(joined == "a,\"b\"caf\xC3\xA9x y");
  hash_strings(data, std::span(offsets).first(4), std::span(again).first(3));
  CHECK(held[0] == again[0] && held[1] == again[1] && held[2] == again[2]);
  CHECK(keys[0] == again[0] && keys[1] == again[1] && keys[2] == again[1] && keys[3] == again[2]);
  for (const char* bad : {"a,", "a,\"b", "a,\"b\"c", "a,\"\"", "a,\xFF", "a,\xC0\x80", "a"}) {
    CHECK_THROWS(parse_strings({bad, "s"}, std::vector<int>{0, 1}, keys, names), InputError);
  }
  CHECK_THROWS(hash_strings(data, std::vector<std::int64_t>{0, 99}, std::span(again).first(1)),
               InputError);
  CHECK_THROWS(hash_strings(data, std::vector<std::int64_t>{3, 1}, std::span(again).first(1)),
               InputError);
  CHECK(is_utf8("\xF0\x9F\x8C\x8D") && !is_utf8("\xED\xA0\x80") && !is_utf8("\xF4\x90\x80\x80"));
  CHECK(is_utf8("eight or more caf\xC3\xA9") && !is_utf8("eight or more \xC3"));
  CHECK(!is_utf8("\xE2\x82") && !is_utf8("\x80") && !is_utf8("\xE0\x80\x80"));
}

// Random bytes, biased to the characters that mean something, through every parser.
void test_noise() {
  const std::string alphabet = "0123456789+-.eE,;\t \"\n\r#%nainf\xC3\xA9\xFFx";
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 60, ' ');
    for (char& c : text) c = random() % 16 ? alphabet[random() % alphabet.size()] : char(random());
    std::vector<char> exact(text.begin(), text.end());  // so that ASan sees one byte too many
    TextPiece piece{{exact.data(), exact.size()}, "noise"};
    piece.delimiter = ",;\t |:"[random() % 6];
    piece.comments = random() % 2;
    const std::size_t room = random() % 9;
    std::vector<std::int64_t> ids(2 * room), offsets(2 * room + 1);
    std::vector<std::uint64_t> keys(2 * room), held(2 * room);
    std::vector<float> weights(room), numbers(3 * room);
    std::vector<std::uint8_t> data(exact.size());
    const std::vector<int> columns = {1, 0};
    const WeightColumn weight{random() % 2 ? 2 : -1, weights};
    auto attempt = [&](auto parse) {
      try {
        const TextTaken taken = parse();
        CHECK(taken.rows <= static_cast<std::int64_t>(room) && taken.bytes <= text.size());
        CHECK(taken.bytes == text.size() || taken.rows == static_cast<std::int64_t>(room));
      } catch (const InputError&) {
      }
    };
    attempt([&] { return parse_integers(piece, columns, ids, weight); });
    attempt([&] { return parse_strings(piece, columns, keys, {data, offsets, held}, weight); });
    attempt([&] { return parse_numbers<float>(piece, 3, std::span(numbers)); });
    split_fields(piece.text, piece.delimiter);
  }
}

}  // namespace

int main() {
  test_integers();
  test_messages();
  test_numbers();
  test_strings();
  test_noise();
  return 0;
}
