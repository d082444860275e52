// ExcludingDraw: a Draw (expand.hpp) for layers in which some rows leave edges out.
//
// Rows that leave out nothing are drawn from as ever. What a Draw does with the others it says in
//     std::int64_t left(row, gaps)                edges the row gives, as likely(row)
//     std::uint32_t take(row, gaps, edge)         as operator()(row, edge), without the gaps
// where `gaps` are the ascending positions that are left out of the row.
#pragma once

#include <cstdint>

#include "sampling/links/excluded.hpp"

namespace foregather {

template <typename Id, typename Draw>
struct ExcludingDraw {
  static constexpr bool kAsks = Draw::kAsks, kReads = Draw::kReads, kExact = Draw::kExact;
  Draw draw;
  const ExcludedRows* excluded;

  void use(std::uint64_t key) { draw.use(key); }
  std::int64_t likely(const FrontierRow<Id>& row) const {
    const auto gaps = excluded->of(row);
    return gaps.empty() ? draw.likely(row) : draw.left(row, gaps);
  }
  std::int64_t most(const FrontierRow<Id>& row) const {
    return Draw::kExact ? likely(row) : draw.most(row);
  }
  bool whole(const FrontierRow<Id>& row) const {
    return draw.whole(row) && excluded->of(row).empty();
  }
  [[gnu::always_inline]] void ask(const FrontierRow<Id>& row) { draw.ask(row); }

  std::uint32_t operator()(const FrontierRow<Id>& row, std::int64_t* edge) {
    const auto gaps = excluded->of(row);
    if (!gaps.empty()) return draw.take(row, gaps, edge);
    return draw(row, edge);
  }
  void weigh(const FrontierRow<Id>& row, const std::int64_t* edge, std::uint32_t count,
             float* weight) {
    FrontierRow<Id> left = row;
    left.degree -= static_cast<std::uint32_t>(excluded->of(row).size());
    draw.weigh(left, edge, count, weight);
  }
};

}  // namespace foregather
