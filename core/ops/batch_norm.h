// The positions of the operands of batch norm's operators, and the groups to which rows belong.
#ifndef TESSERA_CORE_OPS_BATCH_NORM_H_
#define TESSERA_CORE_OPS_BATCH_NORM_H_

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "core/graph/attributes.h"
#include "core/layout/layout.h"

namespace tessera {

// `valid` may be absent.
struct BatchNormSumInput {
  enum : int { kX, kValid };
};
struct BatchNormSumOutput {
  enum : int { kSum, kCount };
};

// `valid` may be absent.
struct BatchNormSquaresInput {
  enum : int { kX, kMean, kValid };
};

// `count` is there if mean and rstd are statistics of x itself; `valid` may be absent.
struct BatchNormInput {
  enum : int { kX, kMean, kRstd, kWeight, kBias, kCount, kValid };
};

struct BatchNormGradSumsInput {
  enum : int { kDy, kX, kMean, kRstd };
};
struct BatchNormGradSumsOutput {
  enum : int { kDySum, kProductSum };
};

// Those from x on are there if mean and rstd are statistics of x itself; `valid` may be absent.
struct BatchNormGradInput {
  enum : int { kDy, kRstd, kWeight, kX, kMean, kDySum, kProductSum, kCount, kValid };
};

// The groups of the rows of x, which are its first dimension. Group g of the global batch has rows
// [g, g + 1) * group_rows.
struct BatchGroups {
  int64_t group_rows = 1;
  int64_t first_row = 0;  // of x, counted from the first row of the first group of the statistics

  // Returns the row of a device's statistics that belongs to row `row` of its x.
  int64_t Of(int64_t row) const { return (first_row + row) / group_rows; }
  // Return the first of a device's `rows` rows that are in group `group`, and the end of them.
  int64_t Begin(int64_t group, int64_t rows) const {
    return std::clamp<int64_t>(group * group_rows - first_row, 0, rows);
  }
  int64_t End(int64_t group, int64_t rows) const { return Begin(group + 1, rows); }
  // Returns whether all of `rows` rows are in one of `groups` groups.
  bool Contain(int64_t rows, int64_t groups) const {
    return rows == 0 || (first_row >= 0 && Of(rows - 1) < groups);
  }
};

// Returns the groups of a call's x, of which operand `x` has the rows and operand `statistic` one
// row for each group. The regions are those of the call, or empty.
inline BatchGroups BatchGroupsOf(const Attributes& attributes, absl::Span<const Region> x_regions,
                                 int x, absl::Span<const Region> statistic_regions, int statistic) {
  BatchGroups groups{attributes.GetInt("group_rows"), 0};
  const auto first_row = [](absl::Span<const Region> regions, int operand) {
    return regions.empty() ? 0 : regions[operand].StartInValue(0);
  };
  groups.first_row =
      first_row(x_regions, x) - first_row(statistic_regions, statistic) * groups.group_rows;
  return groups;
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_BATCH_NORM_H_
