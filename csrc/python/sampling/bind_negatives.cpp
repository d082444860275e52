#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>
#include <utility>

#include "parallel/pool.hpp"
#include "python/arrays.hpp"
#include "python/sampling/excluded_edges.hpp"
#include "sampling/links/negatives.hpp"

namespace foregather::python {
namespace {

// (nodes, units upto each rank or None, times of ranks or None, nodes of ranks or None)
using End = std::tuple<std::int64_t, Numbers, Numbers, Numbers>;
// (where the row of each source begins, ranks, units upto each or None)
template <typename Id>
using Known = std::tuple<In<std::int64_t>, In<Id>, Numbers>;

DrawnEnd view_end(const End& end) {
  const auto& [count, upto, time, order] = end;
  return {count, view_or_none(upto), view_or_none(time), view_or_none(order)};
}

// Draws with the arrays they refer to.
template <typename Id>
class NegativeKernel {
 public:
  NegativeKernel(End source, End destination, std::optional<Known<Id>> known)
      : source_(std::move(source)), destination_(std::move(destination)), known_(std::move(known)) {
    KnownRanks<Id> ranks;
    if (known_) {
      const auto& [indptr, rank, upto] = *known_;
      ranks = {view(indptr), view(rank), view_or_none(upto)};
    }
    Released released;
    draws_.emplace(view_end(source_), view_end(destination_), ranks);
  }

  void draw(const In<std::int64_t>& rows, const Numbers& sources, const Numbers& times,
            const In<std::int64_t>& ptr, const In<std::int64_t>& cuts, std::uint64_t seed,
            std::uint64_t epoch, const Out<std::int64_t>& source,
            const Out<std::int64_t>& destination, int threads) const {
    Released released;
    const Positives given{view(rows), view_or_none(sources), view_or_none(times), view(ptr),
                          view(cuts)};
    draws_->draw(given, seed, epoch, view(source), view(destination),
                 threads > 0 ? threads : default_threads());
  }

 private:
  End source_, destination_;
  std::optional<Known<Id>> known_;
  std::optional<NegativeDraws<Id>> draws_;
};

template <typename Id>
void bind(nb::module_& m, const char* name) {
  using K = NegativeKernel<Id>;
  nb::class_<K>(m, name, "Draws the negatives of links between nodes of two types.")
      .def(nb::init<End, End, std::optional<Known<Id>>>(), nb::arg("source"),
           nb::arg("destination"), nb::arg("known").none() = nb::none())
      .def("draw", &K::draw, nb::arg("rows").noconvert(), nb::arg("sources").noconvert().none(),
           nb::arg("times").noconvert().none(), nb::arg("ptr").noconvert(),
           nb::arg("cuts").noconvert(), nb::arg("seed"), nb::arg("epoch"),
           nb::arg("source").noconvert(), nb::arg("destination").noconvert(),
           nb::arg("threads") = 0, "Fills source and destination with the negatives of batches.");
}

}  // namespace

void bind_negatives(nb::module_& m) {
  bind<std::uint32_t>(m, "NegativeKernel32");
  bind<std::int64_t>(m, "NegativeKernel64");
}

}  // namespace foregather::python
