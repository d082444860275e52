#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/exact_math.hpp"
#include "base/random.hpp"
#include "python/arrays.hpp"
#include "sampling/keys.hpp"
#include "sampling/sampling_verbs.hpp"

namespace foregather::python {
namespace {

template <typename T>
std::span<const T> view_or_none(const std::optional<In<T>>& array) {
  return array ? view(*array) : std::span<const T>{};
}

// noconvert everywhere: a silently converted output would be written and thrown away.
template <typename Id>
void bind_rows(nb::module_& m) {
  m.def(
      "count_rows",
      [](const In<std::int64_t>& indptr, const In<Id>& rows, const Out<std::int64_t>& ptr) {
        Released released;
        count_rows<Id>(view(indptr), view(rows), view(ptr));
      },
      nb::arg("indptr").noconvert(), nb::arg("rows").noconvert(), nb::arg("ptr").noconvert(),
      "Fills ptr: where the entries of each of these rows of A begin.");
  m.def(
      "extract_rows",
      [](const In<std::int64_t>& indptr, const In<Id>& indices, const In<Id>& rows,
         const In<std::int64_t>& ptr, const Out<Id>& columns, const Out<std::int64_t>& edge,
         int threads) {
        Released released;
        extract_rows<Id>(view(indptr), view(indices), view(rows), view(ptr), view(columns),
                         view(edge), threads);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(), nb::arg("rows").noconvert(),
      nb::arg("ptr").noconvert(), nb::arg("columns").noconvert(), nb::arg("edge").noconvert(),
      nb::arg("threads") = 0, "Fills columns and edge with these rows of A.");
  m.def(
      "sample_rows",
      [](const In<Id>& rows, const In<std::int64_t>& batch_ptr, const In<std::int64_t>& ptr,
         const In<Id>& columns, const std::optional<In<double>>& weights,
         const In<std::uint64_t>& keys, std::int64_t s, bool replace,
         const In<std::int64_t>& picks_ptr, const Out<std::int64_t>& picks, const Out<double>& tau,
         int threads) {
        Released released;
        sample_rows<Id>({view(rows), view(batch_ptr), view(ptr), view(columns)},
                        view_or_none<double>(weights), view(keys), s, replace, view(picks_ptr),
                        view(picks), view(tau), threads);
      },
      nb::arg("rows").noconvert(), nb::arg("batch_ptr").noconvert(), nb::arg("ptr").noconvert(),
      nb::arg("columns").noconvert(), nb::arg("weights").noconvert().none(),
      nb::arg("keys").noconvert(), nb::arg("s"), nb::arg("replace"),
      nb::arg("picks_ptr").noconvert(), nb::arg("picks").noconvert(), nb::arg("tau").noconvert(),
      nb::arg("threads") = 0, "Picks s entries of each row into picks and tau.");
}

template <typename Id>
void bind_columns(nb::module_& m) {
  m.def(
      "sum_columns",
      [](const In<std::int64_t>& entry_ptr, const In<Id>& columns, const In<double>& values,
         const Out<Id>& distinct, const Out<std::int64_t>& sums, const Out<std::int64_t>& counts,
         const Out<double>& unit, int threads) {
        Released released;
        sum_columns<Id>(view(entry_ptr), view(columns), view(values),
                        {view(distinct), view(sums), view(counts), view(unit)}, threads);
      },
      nb::arg("entry_ptr").noconvert(), nb::arg("columns").noconvert(),
      nb::arg("values").noconvert(), nb::arg("distinct").noconvert(), nb::arg("sums").noconvert(),
      nb::arg("counts").noconvert(), nb::arg("unit").noconvert(), nb::arg("threads") = 0,
      "Adds values by column in each batch, in fixed point.");
  m.def(
      "square_columns",
      [](const In<std::int64_t>& indptr, const In<Id>& indices,
         const std::optional<In<float>>& edge_weight, const Out<std::int64_t>& sums, int threads) {
        Released released;
        return square_columns<Id>(view(indptr), view(indices), view_or_none<float>(edge_weight),
                                  view(sums), threads);
      },
      nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
      nb::arg("edge_weight").noconvert().none(), nb::arg("sums").noconvert(),
      nb::arg("threads") = 0, "Squared norm of every column of A in units; returns the unit.");
}

template <typename Id>
void bind_picked_columns(nb::module_& m) {
  m.def(
      "sample_columns",
      [](const In<std::int64_t>& column_ptr, const In<Id>& columns, const In<double>& weights,
         const In<std::uint64_t>& keys, std::int64_t s, const In<std::int64_t>& picks_ptr,
         const Out<std::int64_t>& picks, const Out<double>& tau, int threads) {
        Released released;
        sample_columns<Id>(view(column_ptr), view(columns), view(weights), view(keys), s,
                           view(picks_ptr), view(picks), view(tau), threads);
      },
      nb::arg("column_ptr").noconvert(), nb::arg("columns").noconvert(),
      nb::arg("weights").noconvert(), nb::arg("keys").noconvert(), nb::arg("s"),
      nb::arg("picks_ptr").noconvert(), nb::arg("picks").noconvert(), nb::arg("tau").noconvert(),
      nb::arg("threads") = 0, "Picks s columns of each batch into picks and tau.");
  m.def(
      "match_columns",
      [](const In<std::int64_t>& entry_ptr, const In<Id>& columns,
         const In<std::int64_t>& selected_ptr, const In<Id>& selected,
         const Out<std::int64_t>& match, int threads) {
        Released released;
        match_columns<Id>(view(entry_ptr), view(columns), view(selected_ptr), view(selected),
                          view(match), threads);
      },
      nb::arg("entry_ptr").noconvert(), nb::arg("columns").noconvert(),
      nb::arg("selected_ptr").noconvert(), nb::arg("selected").noconvert(),
      nb::arg("match").noconvert(), nb::arg("threads") = 0,
      "Finds each entry's column among those selected in its batch, -1 where it is not.");
  m.def(
      "compact",
      [](const In<std::int64_t>& node_ptr, const In<Id>& nodes, const In<std::int64_t>& edge_ptr,
         const In<Id>& columns, const Out<std::uint32_t>& row, const Out<Id>& fresh,
         const Out<std::int64_t>& counts, int threads) {
        Released released;
        compact<Id>(view(node_ptr), view(nodes), view(edge_ptr), view(columns), view(row),
                    view(fresh), view(counts), threads);
      },
      nb::arg("node_ptr").noconvert(), nb::arg("nodes").noconvert(),
      nb::arg("edge_ptr").noconvert(), nb::arg("columns").noconvert(), nb::arg("row").noconvert(),
      nb::arg("fresh").noconvert(), nb::arg("counts").noconvert(), nb::arg("threads") = 0,
      "Gives columns the local numbers of their batch, after those of its nodes.");
}

void bind_keys(nb::module_& m);
void bind_exact(nb::module_& m, nb::module_& testing);

}  // namespace

void bind_sampling_verbs(nb::module_& m, nb::module_& testing) {
  bind_rows<std::uint32_t>(m);
  bind_rows<std::int64_t>(m);
  bind_columns<std::uint32_t>(m);
  bind_picked_columns<std::uint32_t>(m);
  bind_columns<std::int64_t>(m);
  bind_picked_columns<std::int64_t>(m);
  bind_keys(m);
  bind_exact(m, testing);
}

namespace {

void bind_keys(nb::module_& m) {
  m.def(
      "count_picks",
      [](const In<std::int64_t>& ptr, const std::optional<In<double>>& weights, std::int64_t s,
         bool replace, const Out<std::int64_t>& picks_ptr) {
        Released released;
        count_picks(view(ptr), view_or_none<double>(weights), s, replace, view(picks_ptr));
      },
      nb::arg("ptr").noconvert(), nb::arg("weights").noconvert().none(), nb::arg("s"),
      nb::arg("replace"), nb::arg("picks_ptr").noconvert(),
      "Fills picks_ptr: where the picks of each row or batch begin.");
  m.def(
      "layer_keys",
      [](std::uint64_t seed, std::uint64_t epoch, std::uint64_t first_batch, std::uint64_t layer,
         const Out<std::uint64_t>& keys) {
        for (std::size_t b = 0; b < keys.shape(0); ++b) {
          keys.data()[b] = layer_key(batch_key(seed, epoch, first_batch + b), layer);
        }
      },
      nb::arg("seed"), nb::arg("epoch"), nb::arg("first_batch"), nb::arg("layer"),
      nb::arg("keys").noconvert(), "Keys of one layer of consecutive minibatches.");
  m.def(
      "fold_key", [](const In<std::uint64_t>& words) { return fold_key(view(words)); },
      nb::arg("words").noconvert(), "A key of any number of words; see random.hpp.");
}

void bind_exact(nb::module_& m, nb::module_& testing) {
  nb::class_<FixedPoint>(m, "FixedPoint",
                         "Whole numbers for sums over columns; see sampling_verbs.hpp.")
      .def(nb::init<double, std::int64_t>(), nb::arg("largest"), nb::arg("entries"))
      .def_prop_ro("unit", &FixedPoint::unit, "The value of one unit.")
      .def(
          "units",
          [](const FixedPoint& self, const In<double>& values) {
            std::vector<std::int64_t> made(values.shape(0));
            std::transform(values.data(), values.data() + made.size(), made.begin(), self);
            return to_numpy(std::move(made));
          },
          nb::arg("values").noconvert(), "Values as whole numbers of units.");
  m.def(
      "inclusion",
      [](const In<double>& x, const Out<double>& probability) {
        if (x.shape(0) != probability.shape(0)) throw InputError("x and probability differ");
        for (std::size_t i = 0; i < x.shape(0); ++i) {
          probability.data()[i] = inclusion(x.data()[i]);
        }
      },
      nb::arg("x").noconvert(), nb::arg("probability").noconvert(),
      "1 - exp(-x), the same bits on every machine.");
  testing.def(
      "exact_log",
      [](const In<double>& x, const Out<double>& log) {
        if (x.shape(0) != log.shape(0)) throw InputError("x and log differ in length");
        for (std::size_t i = 0; i < x.shape(0); ++i) log.data()[i] = exact_log(x.data()[i]);
      },
      nb::arg("x").noconvert(), nb::arg("log").noconvert(),
      "Natural logarithm of positive normal numbers, the same bits on every machine.");
}

}  // namespace

}  // namespace foregather::python
