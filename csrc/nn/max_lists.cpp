#include "nn/max_lists.hpp"

#include <limits>
#include <string>

#include "base/types.hpp"
#include "nn/processor.hpp"
#include "nn/row_split.hpp"

namespace foregather::nn {
namespace {

template <typename T, typename Index>
struct Job {
  Lists<Index> lists;
  Heads<const T> x;  // or the gradient, on the way back
  const Sum<T>* weight;
  const std::int64_t* first;
  const std::int32_t* won;
  T* out;
  std::int32_t* winner;

  [[gnu::always_inline]] void ask(std::int64_t k, std::int64_t last) const {
    if (k >= last) return;
    const std::int64_t row = lists.index[k];
    if (row >= lists.limit) return;
    prefetch_row(x.data + row * x.width, x.width);
    if (won != nullptr) prefetch_row(won + row * x.width, x.width);
  }
};

template <typename T, typename Index>
struct Largest {
  template <typename Unit>
  [[gnu::always_inline]] static void lanes(const Job<T, Index>& job, std::int64_t row,
                                           std::int64_t begin, std::int64_t end,
                                           std::int64_t column) {
    Lanes<T> best = {};
    detail::Ints place = {};
    place -= 1;
    for (std::int64_t k = begin; k < end; ++k) {
      Lanes<T> value;
      load_by<Unit, T>(
          job.x.data + static_cast<std::int64_t>(job.lists.index[k]) * job.x.width + column, value);
      if (job.weight != nullptr) value *= job.weight[k];
      const auto now = static_cast<std::int32_t>(k - begin);
      if (now == 0) {
        best = value;
        place += 1;
        continue;
      }
      const Mask<T> more = (value > best) | ((value != value) & (best == best));
      best = more ? value : best;
      place = __builtin_convertvector(more, detail::Ints) ? detail::Ints{} + now : place;
    }
    store_by<Unit, T>(best, job.out + row * job.x.width + column);
    std::memcpy(job.winner + row * job.x.width + column, &place, sizeof place);
  }

  [[gnu::always_inline]] static void few(const Job<T, Index>& job, std::int64_t row,
                                         std::int64_t begin, std::int64_t end) {
    const std::int64_t width = job.x.width;
    for (std::int64_t j = 0; j < width; ++j) {
      Sum<T> best = 0;
      std::int32_t place = -1;
      for (std::int64_t k = begin; k < end; ++k) {
        Sum<T> value = widen(job.x.data[job.lists.index[k] * width + j]);
        if (job.weight != nullptr) value *= job.weight[k];
        if (place < 0 || value > best || (value != value && best == best)) {
          best = value;
          place = static_cast<std::int32_t>(k - begin);
        }
      }
      narrow(best, job.out[row * width + j]);
      job.winner[row * width + j] = place;
    }
  }

  template <typename Unit>
  [[gnu::always_inline]] static void run(const Job<T, Index>& job, std::int64_t first,
                                         std::int64_t last) {
    const std::int64_t* const ptr = job.lists.ptr;
    for (std::int64_t k = ptr[first]; k < ptr[first] + kAhead; ++k) job.ask(k, ptr[last]);
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t begin = ptr[row], end = ptr[row + 1];
      for (std::int64_t k = begin; k < end; ++k) job.ask(k + kAhead, ptr[last]);
      if (job.x.width < kLanes) {
        few(job, row, begin, end);
        continue;
      }
      for (std::int64_t j = 0; j < job.x.width; j += kLanes) {
        lanes<Unit>(job, row, begin, end, std::min(j, job.x.width - kLanes));
      }
    }
  }
};

// To each source what its values won.
template <typename T, typename Index>
struct ToWinners {
  [[gnu::always_inline]] static Sum<T> weight(const Job<T, Index>& job, std::int64_t k) {
    return job.weight != nullptr ? job.weight[job.lists.edge[k]] : Sum<T>{1};
  }
  [[gnu::always_inline]] static std::int32_t place(const Job<T, Index>& job, std::int64_t k) {
    return static_cast<std::int32_t>(job.lists.edge[k] - job.first[job.lists.index[k]]);
  }

  template <typename Unit>
  [[gnu::always_inline]] static void lanes(const Job<T, Index>& job, std::int64_t row,
                                           std::int64_t begin, std::int64_t end,
                                           std::int64_t column) {
    Lanes<T> sums = {};
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t at = static_cast<std::int64_t>(job.lists.index[k]) * job.x.width + column;
      Lanes<T> value;
      load_by<Unit, T>(job.x.data + at, value);
      detail::Ints won;
      std::memcpy(&won, job.won + at, sizeof won);
      value *= weight(job, k);
      sums += __builtin_convertvector(won == place(job, k), Mask<T>) ? value : Lanes<T>{};
    }
    store_by<Unit, T>(sums, job.out + row * job.x.width + column);
  }

  [[gnu::always_inline]] static void few(const Job<T, Index>& job, std::int64_t row,
                                         std::int64_t begin, std::int64_t end) {
    for (std::int64_t j = 0; j < job.x.width; ++j) {
      Sum<T> sum = 0;
      for (std::int64_t k = begin; k < end; ++k) {
        const std::int64_t at = static_cast<std::int64_t>(job.lists.index[k]) * job.x.width + j;
        if (job.won[at] == place(job, k)) sum += widen(job.x.data[at]) * weight(job, k);
      }
      narrow(sum, job.out[row * job.x.width + j]);
    }
  }

  template <typename Unit>
  [[gnu::always_inline]] static void run(const Job<T, Index>& job, std::int64_t first,
                                         std::int64_t last) {
    const std::int64_t* const ptr = job.lists.ptr;
    for (std::int64_t k = ptr[first]; k < ptr[first] + kAhead; ++k) job.ask(k, ptr[last]);
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t begin = ptr[row];
      std::int64_t end = ptr[row + 1];
      while (end > begin && job.lists.index[end - 1] >= job.lists.limit) --end;
      for (std::int64_t k = begin; k < end; ++k) job.ask(k + kAhead, ptr[last]);
      if (job.x.width < kLanes) {
        few(job, row, begin, end);
        continue;
      }
      for (std::int64_t j = 0; j < job.x.width; j += kLanes) {
        lanes<Unit>(job, row, begin, end, std::min(j, job.x.width - kLanes));
      }
    }
  }
};

}  // namespace

template <typename T, typename Index>
void max_lists(const Lists<Index>& lists, const Heads<const T>& x, const Sum<T>* weight, T* out,
               std::int32_t* winner, int threads) {
  for (std::int64_t row = 0; row < lists.rows; ++row) {
    if (lists.ptr[row + 1] - lists.ptr[row] > std::numeric_limits<std::int32_t>::max()) {
      throw InputError("target " + std::to_string(row) +
                       " has more than 2^31 - 1 edges, too many " + "for a maximum");
    }
  }
  if (x.width == 0) return;
  const Job<T, Index> job{lists, x, weight, nullptr, nullptr, out, winner};
  expect_writes(out, lists.rows * x.width * static_cast<std::int64_t>(sizeof(T)));
  expect_writes(winner, lists.rows * x.width * 4);
  each_block(lists.ptr, lists.rows, x.width, threads, [&](std::int64_t first, std::int64_t last) {
    on_this_processor<Largest<T, Index>>(job, first, last);
  });
}

template <typename T, typename Index>
void max_lists_gradient(const Lists<Index>& lists, const Heads<const T>& grad,
                        const std::int32_t* winner, const std::int64_t* first, const Sum<T>* weight,
                        T* out, int threads) {
  if (grad.width == 0) return;
  const Job<T, Index> job{lists, grad, weight, first, winner, out, nullptr};
  expect_writes(out, lists.rows * grad.width * static_cast<std::int64_t>(sizeof(T)));
  each_block(lists.ptr, lists.rows, grad.width, threads, [&](std::int64_t begin, std::int64_t end) {
    on_this_processor<ToWinners<T, Index>>(job, begin, end);
  });
}

#define FOREGATHER_MAX(T, INDEX)                                                                \
  template void max_lists(const Lists<INDEX>&, const Heads<const T>&, const Sum<T>*, T*,        \
                          std::int32_t*, int);                                                  \
  template void max_lists_gradient(const Lists<INDEX>&, const Heads<const T>&,                  \
                                   const std::int32_t*, const std::int64_t*, const Sum<T>*, T*, \
                                   int);
FOREGATHER_EACH_NUMBER(FOREGATHER_MAX)

}  // namespace foregather::nn
