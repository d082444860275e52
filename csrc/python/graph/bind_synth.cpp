#include <nanobind/stl/tuple.h>

#include <tuple>

#include "graph/synthetic/synth.hpp"
#include "python/arrays.hpp"

namespace foregather::python {
namespace {

template <typename Id>
void rows(const Synth& self, std::int64_t begin, const In<std::int64_t>& offsets,
          const Out<Id>& out, int threads) {
  Released released;
  self.rows<Id>(begin, view<std::int64_t>(offsets), view<Id>(out), threads);
}

template <typename Element>
void features(const Synth& self, std::int64_t begin, const Out<Element>& out, int threads) {
  Released released;
  self.features<Element>(begin, view<Element>(out), threads);
}

template <typename Label>
void labels(const Synth& self, std::int64_t begin, const Out<Label>& out, int threads) {
  Released released;
  self.labels<Label>(begin, view<Label>(out), threads);
}

template <auto method, typename Value>
void each(const Synth& self, std::int64_t begin, const Out<Value>& out, int threads) {
  Released released;
  (self.*method)(begin, view<Value>(out), threads);
}

using Split = std::tuple<double, double, double>;  // parts of train, valid and test

void make(Synth* self, std::int64_t nodes, std::int64_t edges, std::int64_t communities,
          std::int64_t classes, std::int64_t width, int skew, double mixing, double label_noise,
          double signal, const Split& split, bool shuffled, std::uint64_t seed) {
  SynthOptions options;
  options.nodes = nodes;
  options.edges = edges;
  options.communities = communities;
  options.classes = classes;
  options.width = width;
  options.skew = skew;
  options.mixing = mixing;
  options.label_noise = label_noise;
  options.signal = signal;
  std::tie(options.train, options.valid, options.test) = split;
  options.shuffled = shuffled;
  options.seed = seed;
  new (self) Synth(options);
}

}  // namespace

void bind_synth(nb::module_& m) {
  const nb::arg begin("begin"), out("out"), threads("threads"), offsets("offsets");
  nb::class_<Synth>(m, "Synth", "A synthetic graph as a pure function of its options.")
      .def("__init__", &make, nb::kw_only(), nb::arg("nodes"), nb::arg("edges"),
           nb::arg("communities"), nb::arg("classes"), nb::arg("width"), nb::arg("skew"),
           nb::arg("mixing"), nb::arg("label_noise"), nb::arg("signal"), nb::arg("split"),
           nb::arg("shuffled"), nb::arg("seed"))
      .def_prop_ro("edges", &Synth::edges, "Edges after capping degrees at nodes - 1.")
      .def("degrees", &each<&Synth::degrees, std::int64_t>, begin, out, threads,
           "In-degrees of the ids from `begin`.")
      .def("communities", &each<&Synth::communities, std::int64_t>, begin, out, threads,
           "Communities of the ids from `begin`.")
      .def("roles", &each<&Synth::roles, std::uint8_t>, begin, out, threads,
           "Splits of the ids from `begin`: 0 train, 1 valid, 2 test, 3 none.")
      .def("rows", &rows<std::uint32_t>, begin, offsets, out, threads,
           "Rows of the ids from `begin`; `offsets` is their part of indptr.")
      .def("rows", &rows<std::int64_t>, begin, offsets, out, threads)
      .def("features", &features<float>, begin, out, threads,
           "Features of the ids from `begin`, flat; uint16 holds binary16 bits.")
      .def("features", &features<std::uint16_t>, begin, out, threads)
      .def("features", &features<std::int8_t>, begin, out, threads)
      .def("labels", &labels<std::int16_t>, begin, out, threads, "Labels of the ids from `begin`.")
      .def("labels", &labels<std::int32_t>, begin, out, threads)
      .def(
          "scale",
          [](const Synth& self, const Out<float>& scale) {
            if (scale.shape(0) != self.scale().size()) {
              throw InputError("the output must hold one scale for each feature column");
            }
            std::copy(self.scale().begin(), self.scale().end(), scale.data());
          },
          out, "The scale of each int8 column.")
      .def("vertex", &Synth::vertex, nb::arg("id"), "The vertex of an id.")
      .def("id", &Synth::id, nb::arg("vertex"), "The id of a vertex.");
}

}  // namespace foregather::python
