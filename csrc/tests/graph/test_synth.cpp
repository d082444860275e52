#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "base/half.hpp"
#include "graph/synthetic/synth.hpp"
#include "tests/check.hpp"

using namespace foregather;

namespace {

struct Csc {
  std::vector<std::int64_t> indptr;
  std::vector<std::uint32_t> indices;
};

Csc build(const SynthOptions& options, int threads, std::int64_t chunk) {
  const Synth synth(options);
  Csc graph;
  graph.indptr.assign(static_cast<std::size_t>(options.nodes) + 1, 0);
  synth.degrees(0, std::span(graph.indptr).subspan(1), threads);
  for (std::size_t v = 1; v < graph.indptr.size(); ++v) graph.indptr[v] += graph.indptr[v - 1];
  CHECK(graph.indptr.back() == synth.edges());
  graph.indices.resize(static_cast<std::size_t>(synth.edges()));
  for (std::int64_t begin = 0; begin < options.nodes; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, options.nodes);
    const std::span<const std::int64_t> offsets =
        std::span<const std::int64_t>(graph.indptr)
            .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin) + 1);
    synth.rows(begin, offsets,
               std::span(graph.indices)
                   .subspan(static_cast<std::size_t>(offsets.front()),
                            static_cast<std::size_t>(offsets.back() - offsets.front())),
               threads);
  }
  return graph;
}

void check_rows(const SynthOptions& options, const Csc& graph) {
  for (std::size_t v = 0; v < static_cast<std::size_t>(options.nodes); ++v) {
    for (std::int64_t e = graph.indptr[v]; e < graph.indptr[v + 1]; ++e) {
      const std::uint32_t source = graph.indices[static_cast<std::size_t>(e)];
      CHECK(source < static_cast<std::uint64_t>(options.nodes));
      CHECK(source != v);
      if (e > graph.indptr[v]) CHECK(source > graph.indices[static_cast<std::size_t>(e) - 1]);
    }
  }
}

void test_divisor() {
  for (std::uint64_t d :
       {1ull, 2ull, 3ull, 7ull, 641ull, 65537ull, 0xFFFFFFFFull, 1ull << 32, 0x123456789ABull}) {
    const Divisor by(d);
    for (std::uint64_t k = 0; k < 2000; ++k) {
      for (std::uint64_t x : std::vector<std::uint64_t>{k, k * d, k * d + d - 1, 0xFFFFFFFFull - k,
                                                        draw(d, k) >> 33}) {
        CHECK(by.quotient(x) == x / d);
      }
    }
  }
}

void test_permutation() {
  for (std::uint64_t n : {1, 2, 3, 4, 5, 17, 100, 1000, 4097}) {
    for (std::uint64_t key : {0, 1, 99}) {
      const Permutation p(n, key);
      std::set<std::uint64_t> seen;
      std::vector<std::uint32_t> all(n);
      for (std::uint64_t x = 0; x < n; ++x) {
        const std::uint64_t y = p.forward(x);
        CHECK(y < n);
        CHECK(p.inverse(y) == x);
        seen.insert(y);
        all[x] = static_cast<std::uint32_t>(x);
      }
      CHECK(seen.size() == n);
      p.forward_all(std::span(all));
      for (std::uint64_t x = 0; x < n; ++x) CHECK(all[x] == p.forward(x));
    }
  }
  const Permutation large(std::uint64_t{5'000'000'000}, 3);
  for (std::uint64_t x = 0; x < 5'000'000'000ull; x += 49'999'999) {
    CHECK(large.inverse(large.forward(x)) == x);
  }
}

// The value of binary16 bits, by the definition.
double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  double value = exponent == 0 ? (bits & 1023) : 1024 + (bits & 1023);
  for (int k = std::max(exponent, 1); k < 25; ++k) value /= 2;
  for (int k = 25; k < exponent; ++k) value *= 2;
  return bits & 0x8000 ? -value : value;
}

void test_half() {
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {  // every finite magnitude, exactly
    const double value = from_half(static_cast<std::uint16_t>(bits));
    CHECK(to_half(static_cast<float>(value)) == bits);
    CHECK(to_half(static_cast<float>(-value)) == (bits | 0x8000));
    if (bits + 1 == 0x7C00) break;
    // Half-way to the next goes to the even one; a little off goes to the nearer one.
    const double next = from_half(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((value + next) / 2);
    CHECK(to_half(middle) == (bits % 2 == 0 ? bits : bits + 1));
    CHECK(to_half(std::nextafter(middle, 0.0f)) == bits);
    CHECK(to_half(std::nextafter(middle, 1e9f)) == bits + 1);
  }
}

void test_graphs() {
  for (bool shuffled : {true, false}) {
    for (int skew : {1, 2, 4, 8}) {
      SynthOptions options;
      options.nodes = 3001;
      options.edges = 40'000;
      options.communities = 7;
      options.classes = 5;
      options.skew = skew;
      options.shuffled = shuffled;
      const Csc graph = build(options, 1, options.nodes);
      CHECK(graph.indptr.back() == options.edges);
      check_rows(options, graph);
      for (int threads : {2, 5}) {
        const Csc again = build(options, threads, 333);
        CHECK(again.indptr == graph.indptr);
        CHECK(again.indices == graph.indices);
      }
    }
  }
}

// Rows of up to N - 1 sources end, and are complete.
void test_tiny() {
  for (std::int64_t nodes : {1, 2, 3, 5, 40}) {
    for (std::int64_t edges = 0; edges <= nodes * (nodes - 1); edges += 1 + nodes / 5) {
      SynthOptions options;
      options.nodes = nodes;
      options.edges = edges;
      options.communities = std::max<std::int64_t>(1, nodes / 3);
      options.mixing = 0.2;
      check_rows(options, build(options, 2, 7));
    }
  }
}

void test_learning() {
  SynthOptions options;
  options.nodes = 20'000;
  options.communities = 40;
  options.classes = 8;
  options.width = 67;
  options.signal = 2.0;
  options.label_noise = 0.25;
  options.train = 0.5;
  options.valid = 0.25;
  const Synth synth(options);
  const auto n = static_cast<std::size_t>(options.nodes);
  std::vector<float> wide(n * 67);
  std::vector<std::uint16_t> half(n * 67);
  std::vector<std::int8_t> narrow(n * 67);
  synth.features(0, std::span(wide), 2);
  synth.features(0, std::span(half), 2);
  synth.features(0, std::span(narrow), 2);
  double sum = 0, squares = 0;
  for (std::size_t k = 0; k < wide.size(); ++k) {
    CHECK(half[k] == to_half(wide[k]));
    const float scale = synth.scale()[k % 67];
    CHECK(std::abs(static_cast<float>(narrow[k]) * scale - wide[k]) <= scale * 0.5001f);
    sum += wide[k];
    squares += static_cast<double>(wide[k]) * wide[k];
  }
  const auto count = static_cast<double>(wide.size());
  CHECK(std::abs(sum / count) < 0.02);
  CHECK(std::abs(squares / count - (1.0 + 4.0 / 67)) < 0.02);
  std::vector<float> part(67 * 100);
  synth.features(777, std::span(part), 1);
  CHECK(std::memcmp(part.data(), wide.data() + 777 * 67, part.size() * sizeof(float)) == 0);

  std::vector<std::int16_t> labels(n);
  std::vector<std::uint8_t> roles(n);
  synth.labels(0, std::span(labels), 3);
  synth.roles(0, std::span(roles), 3);
  std::vector<std::size_t> by_class(8, 0), by_role(4, 0);
  for (std::size_t v = 0; v < n; ++v) ++by_class[static_cast<std::size_t>(labels[v])];
  for (std::size_t v = 0; v < n; ++v) ++by_role[roles[v]];
  for (std::size_t size : by_class) CHECK(size > 2300 && size < 2700);
  CHECK(by_role[0] > 9700 && by_role[0] < 10300);
  CHECK(by_role[1] > 4700 && by_role[1] < 5300);
  CHECK(by_role[2] == 0);
}

void test_errors() {
  SynthOptions good;
  good.nodes = 10;
  good.edges = 20;
  good.width = 4;
  auto broken = [&](auto change) {
    SynthOptions bad = good;
    change(bad);
    CHECK_THROWS(Synth{bad}, InputError);
  };
  broken([](SynthOptions& o) { o.nodes = 0; });
  broken([](SynthOptions& o) { o.edges = 91; });
  broken([](SynthOptions& o) { o.communities = 11; });
  broken([](SynthOptions& o) { o.classes = 2; });
  broken([](SynthOptions& o) { o.skew = 3; });
  broken([](SynthOptions& o) { o.mixing = 1.5; });
  broken([](SynthOptions& o) { o.label_noise = -0.1; });
  broken([](SynthOptions& o) { o.signal = -1; });
  broken([](SynthOptions& o) { o.train = o.test = 0.6; });
  const Synth synth(good);
  std::vector<std::int64_t> degrees(11);
  CHECK_THROWS(synth.degrees(0, degrees, 1), InputError);
  CHECK_THROWS(synth.degrees(-1, std::span(degrees).first(1), 1), InputError);
  CHECK_THROWS(synth.vertex(10), InputError);
  CHECK_THROWS(synth.id(-1), InputError);
  std::vector<std::uint32_t> out(3);
  const std::vector<std::int64_t> wrong = {0, 2}, negative = {3, 0}, full = {0, 10}, none;
  CHECK_THROWS(synth.rows<std::uint32_t>(0, wrong, out, 1), InputError);
  CHECK_THROWS(synth.rows<std::uint32_t>(0, negative, out, 1), InputError);
  CHECK_THROWS(synth.rows<std::uint32_t>(0, full, out, 1), InputError);
  CHECK_THROWS(synth.rows<std::uint32_t>(0, none, out, 1), InputError);
  std::vector<float> uneven(5);
  CHECK_THROWS(synth.features<float>(0, uneven, 1), InputError);
}

}  // namespace

int main() {
  test_divisor();
  test_permutation();
  test_half();
  test_graphs();
  test_tiny();
  test_learning();
  test_errors();
  return 0;
}
