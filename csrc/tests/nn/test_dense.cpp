#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "nn/dense.hpp"
#include "tests/check.hpp"

using namespace foregather;
using namespace foregather::nn;

namespace {

using Values = std::vector<float>;

Values random(std::uint64_t key, std::int64_t count) {
  Values made(static_cast<std::size_t>(count));
  for (std::size_t k = 0; k < made.size(); ++k) {
    made[k] = static_cast<float>(bounded(key, k, 20001)) / 7.0f - 1428.0f;
  }
  return made;
}

struct DenseShape {
  std::int64_t rows, inner, columns;
};

// The promise itself: one fused step after another.
Values slowly(const DenseView& a, const DenseView& b, const DenseShape& shape, const Values& held,
              std::int64_t row, bool add, const Values& bias) {
  Values out = held;
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      float& to = out[static_cast<std::size_t>(i * row + j)];
      float sum = add ? to : bias.empty() ? 0.0f : bias[static_cast<std::size_t>(j)];
      for (std::int64_t k = 0; k < shape.inner; ++k) {
        sum = std::fma(a.data[i * a.row + k * a.column], b.data[k * b.row + j * b.column], sum);
      }
      to = sum;
    }
  }
  return out;
}

// One shape in all four layouts, with every start, for several numbers of threads, bit for bit;
// what lies between the rows of the output is not touched.
void test_shape(const DenseShape& shape) {
  const Values a = random(1, shape.rows * shape.inner), b = random(2, shape.inner * shape.columns);
  const Values bias = random(3, shape.columns), none;
  const std::int64_t row = shape.columns + 3;
  const Values held = random(4, shape.rows * row);
  for (int layout = 0; layout < 4; ++layout) {
    const DenseView left =
        layout % 2 == 0 ? DenseView{a.data(), shape.inner, 1} : DenseView{a.data(), 1, shape.rows};
    const DenseView right = layout / 2 == 0 ? DenseView{b.data(), shape.columns, 1}
                                            : DenseView{b.data(), 1, shape.inner};
    for (int start = 0; start < 3; ++start) {
      const Values& from = start == 1 ? bias : none;
      const Values wanted = slowly(left, right, shape, held, row, start == 2, from);
      for (const int threads : {1, 2, 3}) {
        Values found = held;
        const DenseProduct one{left, right, shape.inner};
        const DenseOut out{found.data(), row, start == 2, start == 1 ? bias.data() : nullptr};
        dense({&one, 1}, shape.rows, shape.columns, out, threads);
        CHECK(wanted.empty() ||
              std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(float)) == 0);
      }
    }
  }
}

// Two products at once are one after the other.
void test_two(std::int64_t rows) {
  const std::int64_t terms = 90, more = 700, columns = 70;
  const Values a = random(1, rows * terms), b = random(2, terms * columns);
  const Values c = random(3, rows * more), d = random(4, more * columns), bias = random(5, columns);
  const DenseProduct products[] = {{{a.data(), terms, 1}, {b.data(), 1, terms}, terms},
                                   {{c.data(), 1, rows}, {d.data(), columns, 1}, more}};
  const auto size = static_cast<std::size_t>(rows * columns);
  Values wanted(size), found(size);
  dense({products, 1}, rows, columns, {wanted.data(), columns, false, bias.data()}, 1);
  dense({products + 1, 1}, rows, columns, {wanted.data(), columns, true, nullptr}, 1);
  for (const int threads : {1, 3}) {
    dense(products, rows, columns, {found.data(), columns, false, bias.data()}, threads);
    CHECK(std::memcmp(found.data(), wanted.data(), size * sizeof(float)) == 0);
  }
}

}  // namespace

int main() {
  for (const std::int64_t columns : {1, 15, 16, 17, 33, 64, 65, 130}) {
    for (const std::int64_t rows : {1, 5, 13, 40}) {
      for (const std::int64_t inner : {0, 1, 7, 64}) test_shape({rows, inner, columns});
    }
  }
  test_shape({9, 1300, 70});    // longer than a stretch of terms, by terms
  test_shape({400, 1100, 20});  // and by rows
  test_shape({1000, 40, 100});  // several tasks
  test_two(5);
  test_two(800);
  test_shape({0, 3, 3});
  test_shape({3, 3, 0});
}
