// Aggregation for torch: addresses and sizes of tensors in, results written where the caller says.
//
// Tensors come as addresses (data_ptr) because a call must cost little beside a small batch and
// because the core does not know torch. What calls this, foregather.nn.aggregate, has checked
// shapes and dtypes; the lists it hands on were checked by lists_by_target.
#include "nn/edge_dots.hpp"
#include "nn/edge_lists.hpp"
#include "nn/edge_softmax.hpp"
#include "nn/max_lists.hpp"
#include "nn/processor.hpp"
#include "nn/sum_lists.hpp"
#include "parallel/team.hpp"
#include "python/arrays.hpp"

namespace foregather::python {
namespace {

using Address = std::uintptr_t;

template <typename T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

// Calls body(T{}) for the storage type.
template <typename Body>
void with_number(int number, const Body& body) {
  switch (static_cast<nn::Number>(number)) {
    case nn::Number::kFloat32:
      return body(float{});
    case nn::Number::kFloat64:
      return body(double{});
    case nn::Number::kBfloat16:
      return body(nn::Bfloat16{});
    case nn::Number::kFloat16:
      return body(nn::Float16{});
  }
  throw InputError("number " + std::to_string(number) + " is none of 0 to 3");
}

// Lists as Python has them: addresses, and whether indices have 8 bytes.
struct EdgeLists {
  Address ptr, index, edge;
  std::int64_t rows, limit;
  bool wide;

  template <typename Index>
  nn::Lists<Index> as() const {
    return {at<const std::int64_t>(ptr), rows, at<const Index>(index), at<const Index>(edge),
            limit};
  }
};

// Calls body(T{}, Index{}).
template <typename Body>
void with_types(int number, const EdgeLists& lists, const Body& body) {
  Released released;
  OnTeam team;
  with_number(number, [&](auto value) {
    if (lists.wide) {
      body(value, std::int64_t{});
    } else {
      body(value, std::int32_t{});
    }
  });
}

void bind_lists(nb::module_& m) {
  m.def(
      "lists_by_target",
      [](Address from, Address to, std::int64_t edges, std::int64_t num_sources,
         std::int64_t num_targets, Address indptr, Address source, bool wide, int threads) {
        Released released;
        const auto count = static_cast<std::size_t>(edges);
        const std::span out(at<std::int64_t>(indptr), static_cast<std::size_t>(num_targets) + 1);
        const std::span starts(at<const std::int64_t>(from), count);
        const std::span ends(at<const std::int64_t>(to), count);
        if (wide) {
          nn::lists_by_target<std::int64_t>(starts, ends, num_sources, out,
                                            {at<std::int64_t>(source), count}, threads);
        } else {
          nn::lists_by_target<std::int32_t>(starts, ends, num_sources, out,
                                            {at<std::int32_t>(source), count}, threads);
        }
      },
      nb::arg("from_"), nb::arg("to"), nb::arg("edges"), nb::arg("num_sources"),
      nb::arg("num_targets"), nb::arg("indptr"), nb::arg("source"), nb::arg("wide"),
      nb::arg("threads"), "Checks edges that ascend by target and writes their lists.");
  m.def(
      "lists_by_source",
      [](Address indptr, std::int64_t num_targets, Address source, std::int64_t edges,
         std::int64_t num_sources, Address ptr, Address edge, Address target, bool wide,
         int threads) {
        Released released;
        const auto count = static_cast<std::size_t>(edges);
        const std::span in(at<const std::int64_t>(indptr),
                           static_cast<std::size_t>(num_targets) + 1);
        const std::span out(at<std::int64_t>(ptr), static_cast<std::size_t>(num_sources) + 1);
        const auto sort = [&](auto index) {
          using Index = decltype(index);
          nn::lists_by_source<Index>(in, {at<const Index>(source), count}, out,
                                     {at<Index>(edge), count}, {at<Index>(target), count}, threads);
        };
        if (wide) {
          sort(std::int64_t{});
        } else {
          sort(std::int32_t{});
        }
      },
      nb::arg("indptr"), nb::arg("num_targets"), nb::arg("source"), nb::arg("edges"),
      nb::arg("num_sources"), nb::arg("ptr"), nb::arg("edge"), nb::arg("target"), nb::arg("wide"),
      nb::arg("threads"), "Writes the lists by source of edges whose lists by target are given.");
}

void bind_sums(nb::module_& m) {
  m.def(
      "sum_lists",
      [](const EdgeLists& lists, int number, Address x, std::int64_t heads, std::int64_t width,
         bool shared, Address weight, Address sizes, bool mean, Address out, int threads) {
        with_types(number, lists, [&](auto value, auto index) {
          using T = decltype(value);
          using Index = decltype(index);
          nn::sum_lists<T, Index>(lists.as<Index>(), {at<const T>(x), heads, width, shared},
                                  {at<const nn::Sum<T>>(weight), at<const std::int64_t>(sizes)},
                                  mean, at<T>(out), threads);
        });
      },
      nb::arg("lists"), nb::arg("number"), nb::arg("x"), nb::arg("heads"), nb::arg("width"),
      nb::arg("shared"), nb::arg("weight"), nb::arg("sizes"), nb::arg("mean"), nb::arg("out"),
      nb::arg("threads"), "Sums of the rows of x over lists, weighted and divided as asked.");
  m.def(
      "edge_dots",
      [](const EdgeLists& lists, int number, Address x, std::int64_t heads, std::int64_t width,
         bool shared, Address grad, bool mean, Address winner, Address out, int threads) {
        with_types(number, lists, [&](auto value, auto index) {
          using T = decltype(value);
          using Index = decltype(index);
          nn::edge_dots<T, Index>(lists.as<Index>(), {at<const T>(x), heads, width, shared},
                                  at<const T>(grad), mean, at<const std::int32_t>(winner),
                                  at<nn::Sum<T>>(out), threads);
        });
      },
      nb::arg("lists"), nb::arg("number"), nb::arg("x"), nb::arg("heads"), nb::arg("width"),
      nb::arg("shared"), nb::arg("grad"), nb::arg("mean"), nb::arg("winner"), nb::arg("out"),
      nb::arg("threads"), "Products of the rows of x and grad at the two ends of each edge.");
}

void bind_max(nb::module_& m) {
  m.def(
      "max_lists",
      [](const EdgeLists& lists, int number, Address x, std::int64_t width, Address weight,
         Address out, Address winner, int threads) {
        with_types(number, lists, [&](auto value, auto index) {
          using T = decltype(value);
          using Index = decltype(index);
          nn::max_lists<T, Index>(lists.as<Index>(), {at<const T>(x), 1, width},
                                  at<const nn::Sum<T>>(weight), at<T>(out),
                                  at<std::int32_t>(winner), threads);
        });
      },
      nb::arg("lists"), nb::arg("number"), nb::arg("x"), nb::arg("width"), nb::arg("weight"),
      nb::arg("out"), nb::arg("winner"), nb::arg("threads"),
      "The largest of the rows of x over lists, and which entry has it.");
  m.def(
      "max_lists_gradient",
      [](const EdgeLists& lists, int number, Address grad, std::int64_t width, Address winner,
         Address first, Address weight, Address out, int threads) {
        with_types(number, lists, [&](auto value, auto index) {
          using T = decltype(value);
          using Index = decltype(index);
          nn::max_lists_gradient<T, Index>(
              lists.as<Index>(), {at<const T>(grad), 1, width}, at<const std::int32_t>(winner),
              at<const std::int64_t>(first), at<const nn::Sum<T>>(weight), at<T>(out), threads);
        });
      },
      nb::arg("lists"), nb::arg("number"), nb::arg("grad"), nb::arg("width"), nb::arg("winner"),
      nb::arg("first"), nb::arg("weight"), nb::arg("out"), nb::arg("threads"),
      "The gradient of x, from that of max_lists, over lists by source.");
}

void bind_softmax(nb::module_& m) {
  m.def(
      "edge_softmax",
      [](Address ptr, std::int64_t rows, int number, std::int64_t heads, Address z, Address y,
         int threads) {
        Released released;
        OnTeam team;
        with_number(number, [&](auto value) {
          using T = decltype(value);
          nn::edge_softmax<T>(at<const std::int64_t>(ptr), rows, heads, at<const T>(z), at<T>(y),
                              threads);
        });
      },
      nb::arg("ptr"), nb::arg("rows"), nb::arg("number"), nb::arg("heads"), nb::arg("z"),
      nb::arg("y"), nb::arg("threads"), "Softmax over the edges of each target.");
  m.def(
      "edge_softmax_gradient",
      [](Address ptr, std::int64_t rows, int number, std::int64_t heads, Address y, Address grad,
         Address out, int threads) {
        Released released;
        OnTeam team;
        with_number(number, [&](auto value) {
          using T = decltype(value);
          nn::edge_softmax_gradient<T>(at<const std::int64_t>(ptr), rows, heads, at<const T>(y),
                                       at<const T>(grad), at<T>(out), threads);
        });
      },
      nb::arg("ptr"), nb::arg("rows"), nb::arg("number"), nb::arg("heads"), nb::arg("y"),
      nb::arg("grad"), nb::arg("out"), nb::arg("threads"), "The gradient of edge_softmax.");
}

void bind_attention(nb::module_& m) {
  m.def(
      "edge_attention",
      [](const EdgeLists& lists, int number, std::int64_t heads, Address given, Address taken,
         double slope, Address y, int threads) {
        with_types(number, lists, [&](auto value, auto index) {
          using T = decltype(value);
          using Index = decltype(index);
          nn::edge_attention<T, Index>(lists.as<Index>(),
                                       {at<const T>(given), at<const T>(taken), slope}, heads,
                                       at<T>(y), threads);
        });
      },
      nb::arg("lists"), nb::arg("number"), nb::arg("heads"), nb::arg("given"), nb::arg("taken"),
      nb::arg("slope"), nb::arg("y"), nb::arg("threads"),
      "Softmax over the edges of each target of what their two ends have.");
  m.def(
      "edge_attention_gradient",
      [](const EdgeLists& lists, int number, std::int64_t heads, Address given, Address taken,
         double slope, Address y, Address grad, Address to_sum, Address to_taken, int threads) {
        with_types(number, lists, [&](auto value, auto index) {
          using T = decltype(value);
          using Index = decltype(index);
          nn::edge_attention_gradient<T, Index>(
              lists.as<Index>(), {at<const T>(given), at<const T>(taken), slope}, heads,
              at<const T>(y), at<const T>(grad), at<T>(to_sum), at<T>(to_taken), threads);
        });
      },
      nb::arg("lists"), nb::arg("number"), nb::arg("heads"), nb::arg("given"), nb::arg("taken"),
      nb::arg("slope"), nb::arg("y"), nb::arg("grad"), nb::arg("to_sum"), nb::arg("to_taken"),
      nb::arg("threads"), "The gradient of edge_attention, at edges and at targets.");
}

}  // namespace

void bind_aggregate(nb::module_& m, nb::module_& testing) {
  testing.def(
      "allow_avx2", [](bool allowed) { nn::avx2_allowed() = allowed; }, nb::arg("allowed"),
      "Whether aggregation may use AVX2, to compare it with the form for every processor.");
  nb::class_<EdgeLists>(m, "EdgeLists", "Addresses of lists of edges, by target or by source.")
      .def(
          "__init__",
          [](EdgeLists* self, Address ptr, std::int64_t rows, Address index, Address edge,
             std::int64_t limit,
             bool wide) { new (self) EdgeLists{ptr, index, edge, rows, limit, wide}; },
          nb::arg("ptr"), nb::arg("rows"), nb::arg("index"), nb::arg("edge"), nb::arg("limit"),
          nb::arg("wide"));
  bind_lists(m);
  bind_sums(m);
  bind_max(m);
  bind_softmax(m);
  bind_attention(m);
}

}  // namespace foregather::python
