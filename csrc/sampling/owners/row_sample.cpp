#include "sampling/owners/row_sample.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/varint.hpp"
#include "parallel/pool.hpp"
#include "plan/radix_order.hpp"
#include "sampling/owners/row_picker.hpp"

namespace foregather {

using detail::check_block;
using detail::Picker;
using detail::require;

template <typename Id>
RowInquiry<Id>::RowInquiry(std::span<const Id> rows, std::span<const std::int64_t> batch_ptr,
                           std::span<const std::int64_t> row_starts,
                           std::span<const std::uint64_t> keys, RowRule rule, std::int64_t own)
    : rows_(rows), row_starts_(row_starts), keys_(keys), rule_(rule), own_(own) {
  require(!batch_ptr.empty() && batch_ptr.front() == 0 &&
              batch_ptr.back() == static_cast<std::int64_t>(rows.size()) &&
              std::is_sorted(batch_ptr.begin(), batch_ptr.end()) &&
              batch_ptr.size() == keys.size() + 1,
          "batch_ptr does not cut the rows into one batch for each key");
  require(row_starts.size() > 1 && row_starts.front() == 0 &&
              std::is_sorted(row_starts.begin(), row_starts.end()),
          "row_starts do not cut the vertices into blocks");
  require(rows.size() < std::numeric_limits<std::uint32_t>::max(),
          "a frontier of more than 2^32 rows; sample fewer minibatches at once");
  batch_.resize(rows.size());
  for (std::size_t b = 0; b + 1 < batch_ptr.size(); ++b) {
    std::fill(batch_.begin() + batch_ptr[b], batch_.begin() + batch_ptr[b + 1],
              static_cast<std::uint32_t>(b));
  }
  order_ = detail::radix_order<Id>(rows);
  owner_ptr_.assign(row_starts.size(), 0);
  std::size_t owner = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Id vertex = rows[order_[i]];
    if (i > 0 && vertex == rows[order_[i - 1]]) {
      require(batch_[order_[i]] != batch_[order_[i - 1]], "a batch has a row twice");
      continue;
    }
    const auto id = static_cast<std::int64_t>(vertex);
    require(id >= 0 && id < row_starts.back(), "rows hold an id that is not a node");
    while (id >= row_starts[owner + 1]) owner_ptr_[++owner] = groups_.size();
    groups_.push_back({static_cast<std::uint32_t>(i), 0, 0, 0});
  }
  while (owner + 1 < row_starts.size()) owner_ptr_[++owner] = groups_.size();
  groups_.push_back({static_cast<std::uint32_t>(order_.size()), 0, 0, 0});
  sources_.resize(static_cast<std::size_t>(owners()));
  weights_.resize(static_cast<std::size_t>(owners()));
}

template <typename Id>
bool RowInquiry<Id>::whole(std::uint32_t degree) const {
  return detail::takes_all(rule_, degree);
}

template <typename Id>
std::vector<std::uint8_t> RowInquiry<Id>::request(std::int64_t owner) const {
  const auto o = static_cast<std::size_t>(owner);
  require(owner >= 0 && owner < owners(), "there is no such owner");
  std::vector<std::uint8_t> out;
  const std::size_t first = owner_ptr_[o], last = owner_ptr_[o + 1];
  if (owner == own_ || first == last) return out;
  const auto put = [&](std::int64_t vertex, std::int64_t& next) {
    put_varint(out, static_cast<std::uint64_t>(vertex - next));
    next = vertex + 1;
  };
  if (rule_.fanout < 0) {
    put_varint(out, 1);
    put_varint(out, last - first);
    std::int64_t next = row_starts_[o];
    for (std::size_t g = first; g < last; ++g) {
      put(static_cast<std::int64_t>(rows_[order_[groups_[g].first]]), next);
    }
    return out;
  }
  // The pairs of this owner by batch: a counting sort of what is sorted by vertex.
  const std::size_t pairs = groups_[last].first;
  std::vector<std::size_t> place(keys_.size() + 1, 0);
  for (std::size_t i = groups_[first].first; i < pairs; ++i) ++place[batch_[order_[i]] + 1];
  put_varint(out, keys_.size());
  const auto* raw = reinterpret_cast<const std::uint8_t*>(keys_.data());
  out.insert(out.end(), raw, raw + keys_.size() * sizeof(std::uint64_t));
  for (std::size_t b = 0; b < keys_.size(); ++b) place[b + 1] += place[b];
  std::vector<Id> sorted(place.back());
  const std::vector<std::size_t> begin = place;
  for (std::size_t i = groups_[first].first; i < pairs; ++i) {
    sorted[place[batch_[order_[i]]]++] = rows_[order_[i]];
  }
  for (std::size_t b = 0; b < keys_.size(); ++b) {
    put_varint(out, begin[b + 1] - begin[b]);
    std::int64_t next = row_starts_[o];
    for (std::size_t i = begin[b]; i < begin[b + 1]; ++i) {
      put(static_cast<std::int64_t>(sorted[i]), next);
    }
  }
  return out;
}

template <typename Id>
void RowInquiry<Id>::read_reply(std::int64_t owner, std::span<const std::uint8_t> reply,
                                bool weighted) {
  const auto o = static_cast<std::size_t>(owner);
  auto& sources = sources_[o];
  VarintReader in(reply);
  std::int64_t end_before = 0;
  for (std::size_t g = owner_ptr_[o]; g < owner_ptr_[o + 1]; ++g) {
    Group& group = groups_[g];
    group.degree = static_cast<std::uint32_t>(in.number(0xFFFFFFFFu));
    group.source = sources.size();
    if (group.degree == 0) continue;
    group.start = end_before + static_cast<std::int64_t>(in.number(std::uint64_t{1} << 62));
    end_before = group.start + group.degree;
    std::uint64_t count = group.degree;
    if (!whole(group.degree)) {
      count = static_cast<std::uint64_t>(rule_.fanout);
      if (rule_.replace || groups_[g + 1].first - group.first > 1) count = in.number(group.degree);
    }
    std::uint64_t source = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      source += in.number();
      require(source < static_cast<std::uint64_t>(row_starts_.back()),
              "a reply holds an id that is not a node");
      sources.push_back(static_cast<Id>(source));
    }
    if (weighted) {
      const auto raw = in.raw(count * sizeof(float));
      const std::size_t before = weights_[o].size();
      weights_[o].resize(before + count);
      std::memcpy(&weights_[o][before], raw.data(), raw.size());
    }
  }
  require(in.left() == 0, "a reply is longer than it should be");
}

template <typename Id>
void RowInquiry<Id>::read_own(const BlockRows<Id>& block) {
  const auto o = static_cast<std::size_t>(own_);
  require(block.first_row == row_starts_[o] && static_cast<std::int64_t>(block.indptr.size()) - 1 ==
                                                   row_starts_[o + 1] - row_starts_[o],
          "the block is not the one row_starts names");
  for (std::size_t g = owner_ptr_[o]; g < owner_ptr_[o + 1]; ++g) {
    const auto vertex = static_cast<std::int64_t>(rows_[order_[groups_[g].first]]);
    const std::int64_t* ends = &block.indptr[vertex - block.first_row];
    groups_[g].start = ends[0];
    groups_[g].degree = static_cast<std::uint32_t>(ends[1] - ends[0]);
  }
}

template <typename Id>
void RowInquiry<Id>::accept(std::span<const std::span<const std::uint8_t>> replies,
                            const BlockRows<Id>& block, bool weighted, std::span<std::int64_t> ptr,
                            int threads) {
  require(static_cast<std::int64_t>(replies.size()) == owners(), "there is not one reply an owner");
  require(ptr.size() == rows_.size() + 1, "ptr does not have one entry more than rows");
  check_block(block);
  parallel_tasks(owners(), threads, [&](std::int64_t owner, int) {
    const auto o = static_cast<std::size_t>(owner);
    if (owner == own_) {
      read_own(block);
    } else {
      sources_[o].clear();
      weights_[o].clear();
      read_reply(owner, replies[o], weighted);
    }
    for (std::size_t g = owner_ptr_[o]; g < owner_ptr_[o + 1]; ++g) {
      const std::uint32_t degree = groups_[g].degree;
      for (std::uint32_t i = groups_[g].first; i < groups_[g + 1].first; ++i) {
        ptr[order_[i] + 1] = whole(degree) ? degree : rule_.fanout;
      }
    }
  });
  ptr[0] = 0;
  for (std::size_t r = 0; r < rows_.size(); ++r) ptr[r + 1] += ptr[r];
}

template <typename Id>
struct RowInquiry<Id>::Entries {
  std::span<const std::int64_t> ptr;
  std::span<Id> columns;
  std::span<std::int64_t> edge;
  std::span<float> weight;
};

// Fills the entries of a vertex whose whole row is taken; `weight` is read if weights are wanted.
template <typename Id>
void RowInquiry<Id>::copy_whole(std::size_t group, const Id* row, const float* weight,
                                const Entries& out) const {
  const Group& own = groups_[group];
  for (std::uint32_t i = own.first; i < groups_[group + 1].first; ++i) {
    const auto to = static_cast<std::size_t>(out.ptr[order_[i]]);
    for (std::uint32_t p = 0; p < own.degree; ++p) {
      out.columns[to + p] = row[p];
      out.edge[to + p] = own.start + p;
    }
    if (!out.weight.empty()) std::copy(weight, weight + own.degree, &out.weight[to]);
  }
}

// Fills the entries of all vertices of one owner, from its reply or from the own block.
template <typename Id>
void RowInquiry<Id>::fill_owner(std::int64_t owner, const BlockRows<Id>& block,
                                const Entries& out) const {
  const auto o = static_cast<std::size_t>(owner);
  const bool local = owner == own_;
  Picker picker(rule_), again(rule_);
  for (std::size_t g = owner_ptr_[o]; g < owner_ptr_[o + 1]; ++g) {
    const Group& group = groups_[g];
    const std::uint32_t first = group.first, last = groups_[g + 1].first;
    if (group.degree == 0) continue;
    const auto at = static_cast<std::size_t>(group.start - block.indptr.front());  // if local
    const Id* row = local ? &block.indices[at] : &sources_[o][group.source];
    if (whole(group.degree)) {
      const float* weight = nullptr;
      if (!out.weight.empty()) weight = local ? &block.edge_weight[at] : &weights_[o][group.source];
      copy_whole(g, row, weight, out);
      continue;
    }
    const auto vertex = static_cast<std::uint64_t>(rows_[order_[first]]);
    const bool united = !local && (last - first > 1 || rule_.replace);
    std::span<const std::uint32_t> sent;
    if (united) {
      picker.begin();
      for (std::uint32_t i = first; i < last; ++i) {
        picker.add(again.draw(keys_[batch_[order_[i]]], vertex, group.degree));
      }
      sent = picker.united();
      const std::size_t end =
          g + 1 < owner_ptr_[o + 1] ? groups_[g + 1].source : sources_[o].size();
      require(sent.size() == end - group.source, "a reply does not have the picks of its row");
    }
    for (std::uint32_t i = first; i < last; ++i) {
      const auto picks = again.draw(keys_[batch_[order_[i]]], vertex, group.degree);
      const auto to = static_cast<std::size_t>(out.ptr[order_[i]]);
      std::size_t place = 0;  // in what was sent; picks ascend, so it only grows
      for (std::size_t p = 0; p < picks.size(); ++p) {
        out.edge[to + p] = group.start + picks[p];
        if (united) {
          while (sent[place] != picks[p]) ++place;
        } else {
          place = local ? picks[p] : p;
        }
        out.columns[to + p] = row[place];
      }
    }
  }
}

template <typename Id>
void RowInquiry<Id>::fill(const BlockRows<Id>& block, std::span<const std::int64_t> ptr,
                          std::span<Id> columns, std::span<std::int64_t> edge,
                          std::span<float> weight, int threads) const {
  require(ptr.size() == rows_.size() + 1 && columns.size() == edge.size() &&
              static_cast<std::int64_t>(edge.size()) == ptr.back() &&
              (weight.empty() || weight.size() == edge.size()),
          "columns, edge and weight do not have the length accept gave");
  parallel_tasks(owners(), threads, [&](std::int64_t owner, int) {
    fill_owner(owner, block, {ptr, columns, edge, weight});
  });
}

template class RowInquiry<std::uint32_t>;
template class RowInquiry<std::int64_t>;

}  // namespace foregather
