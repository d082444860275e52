#include <nanobind/stl/pair.h>

#include <utility>
#include <vector>

#include "python/arrays.hpp"
#include "sampling/layerwise/fastgcn_block_draw.hpp"

namespace foregather::python {
namespace {

// A block with the weights it refers to.
struct HeldBlock {
  HeldBlock(In<double> given, std::int64_t first, int above)
      : weights(std::move(given)), block(view(weights), first, above) {}
  In<double> weights;
  ArrivalsBlock block;
};

template <typename Order>
auto arrays(Offer<Order> offer) {
  return std::make_pair(to_numpy(std::move(offer.order)), to_numpy(std::move(offer.vertex)));
}

}  // namespace

void bind_fastgcn_draw(nb::module_& m) {
  nb::class_<HeldBlock>(m, "ArrivalsBlock", "One owner's weighted nodes, drawn from with others'.")
      .def(nb::init<In<double>, std::int64_t, int>(), nb::arg("weights").noconvert(),
           nb::arg("first"), nb::arg("above"))
      .def_prop_ro("units", [](const HeldBlock& self) { return self.block.units(); })
      .def(
          "place",
          [](HeldBlock& self, std::uint64_t before, std::uint64_t all) {
            self.block.place(before, all);
          },
          nb::arg("before"), nb::arg("all"), "Where its units lie among those of all owners.")
      .def(
          "arrive",
          [](const HeldBlock& self, std::uint64_t layer, std::int64_t begin, std::int64_t end) {
            return arrays(self.block.arrive(layer, begin, end));
          },
          nb::arg("layer"), nb::arg("begin"), nb::arg("end"),
          "Numbers and nodes of first arrivals in [begin, end).")
      .def(
          "rest",
          [](const HeldBlock& self, std::uint64_t layer, std::int64_t end, std::int64_t size) {
            return arrays(self.block.rest(layer, end, size));
          },
          nb::arg("layer"), nb::arg("end"), nb::arg("size"),
          "Keys and nodes of those that have not come, the smallest keys.");
  m.def("most_arrivals", &most_arrivals, nb::arg("size"), "Arrivals before the cut-off.");
  m.def(
      "arrival_time",
      [](std::uint64_t layer, std::int64_t number, int above, std::uint64_t units) {
        return arrival_time(layer, number, {above, units});
      },
      nb::arg("layer"), nb::arg("number"), nb::arg("above"), nb::arg("units"),
      "The time of an arrival.");
}

}  // namespace foregather::python
