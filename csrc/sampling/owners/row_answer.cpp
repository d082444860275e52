#include <cstring>

#include "base/varint.hpp"
#include "plan/radix_order.hpp"
#include "sampling/owners/row_picker.hpp"
#include "sampling/owners/row_sample.hpp"

namespace foregather {
namespace {

using detail::Picker;
using detail::require;
using detail::takes_all;

// The sources at some positions of a row, as differences.
template <typename Id, typename Positions>
void put_sources(std::vector<std::uint8_t>& out, const Id* row, const Positions& positions) {
  std::uint64_t before = 0;
  for (std::uint32_t position : positions) {
    const auto source = static_cast<std::uint64_t>(row[position]);
    require(source >= before, "the sources of a row do not ascend; verify the graph");
    put_varint(out, source - before);
    before = source;
  }
}

}  // namespace

template <typename Id>
RowRequest<Id> read_request(const BlockRows<Id>& block, bool keyed,
                            std::span<const std::uint8_t> request) {
  RowRequest<Id> asked;
  if (request.empty()) return asked;
  VarintReader in(request);
  const std::uint64_t batches = in.number(request.size());
  if (keyed) {
    asked.keys.resize(batches);
    const auto bytes = in.raw(batches * sizeof(std::uint64_t));
    if (batches > 0) std::memcpy(asked.keys.data(), bytes.data(), bytes.size());
  } else {
    require(batches == 1, "a request for whole rows has several batches");
  }
  const auto rows = static_cast<std::uint64_t>(block.indptr.size() - 1);
  for (std::uint64_t b = 0; b < batches; ++b) {
    const std::uint64_t count = in.number(in.left());
    std::uint64_t next = 0;  // the smallest row that may follow
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t step = in.number();
      require(step < rows - next, "a request asks for a row that its owner does not have");
      const std::uint64_t row = next + step;  // below rows, so next never exceeds rows
      asked.vertex.push_back(static_cast<Id>(block.first_row + static_cast<std::int64_t>(row)));
      asked.batch.push_back(static_cast<std::uint32_t>(b));
      next = row + 1;
    }
  }
  require(in.left() == 0, "a request is longer than it says");
  return asked;
}

template <typename Id>
std::vector<std::uint8_t> answer_rows(const BlockRows<Id>& block, const RowRule& rule,
                                      std::span<const std::uint8_t> request) {
  detail::check_block(block);
  const RowRequest<Id> asked = read_request(block, rule.fanout >= 0, request);
  const auto order = detail::radix_order<Id>(asked.vertex);
  std::vector<std::uint8_t> reply;
  Picker picker(rule);
  std::vector<std::uint32_t> all;
  std::int64_t end_before = 0;
  for (std::size_t first = 0, last; first < order.size(); first = last) {
    const Id vertex = asked.vertex[order[first]];
    for (last = first + 1; last < order.size() && asked.vertex[order[last]] == vertex;) ++last;
    const std::int64_t* ends = &block.indptr[static_cast<std::int64_t>(vertex) - block.first_row];
    const auto degree = static_cast<std::uint32_t>(ends[1] - ends[0]);
    const auto at = static_cast<std::size_t>(ends[0] - block.indptr.front());
    put_varint(reply, degree);
    if (degree == 0) continue;
    put_varint(reply, static_cast<std::uint64_t>(ends[0] - end_before));
    end_before = ends[1];
    if (takes_all(rule, degree)) {
      while (all.size() < degree) all.push_back(static_cast<std::uint32_t>(all.size()));
      put_sources(reply, &block.indices[at], std::span(all).first(degree));
      if (!block.edge_weight.empty() && rule.fanout < 0) {
        const auto* raw = reinterpret_cast<const std::uint8_t*>(&block.edge_weight[at]);
        reply.insert(reply.end(), raw, raw + degree * sizeof(float));
      }
      continue;
    }
    picker.begin();
    for (std::size_t i = first; i < last; ++i) {
      picker.add(picker.draw(asked.keys[asked.batch[order[i]]], static_cast<std::uint64_t>(vertex),
                             degree));
    }
    const auto united = picker.united();
    if (last - first > 1 || rule.replace) put_varint(reply, united.size());
    put_sources(reply, &block.indices[at], united);
  }
  return reply;
}

template RowRequest<std::uint32_t> read_request(const BlockRows<std::uint32_t>&, bool,
                                                std::span<const std::uint8_t>);
template RowRequest<std::int64_t> read_request(const BlockRows<std::int64_t>&, bool,
                                               std::span<const std::uint8_t>);
template std::vector<std::uint8_t> answer_rows(const BlockRows<std::uint32_t>&, const RowRule&,
                                               std::span<const std::uint8_t>);
template std::vector<std::uint8_t> answer_rows(const BlockRows<std::int64_t>&, const RowRule&,
                                               std::span<const std::uint8_t>);

}  // namespace foregather
