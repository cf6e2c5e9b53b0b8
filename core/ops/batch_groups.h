// The shape rules and layout signatures of operators on a batch that is cut into groups of rows,
// each with statistics of its own. Group g has rows [g, g + 1) * group_rows, which is an attribute;
// the last group may have fewer.
#ifndef TESSERA_CORE_OPS_BATCH_GROUPS_H_
#define TESSERA_CORE_OPS_BATCH_GROUPS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/graph/operator.h"
#include "core/ops/input_check.h"

namespace tessera {

// How an operand belongs to x.
enum class GroupOperand {
  kX,          // [rows, ..., channels]: x itself, or another tensor of its shape
  kRows,       // [rows]
  kStatistic,  // [groups, channels]
  kCount,      // [groups, 1]
  kChannels,   // [channels]
};

// Return the types of operands of x.
TensorType StatisticType(const TensorType& x, int64_t groups);
TensorType RowsType(const TensorType& x);
TensorType ChannelsType(const TensorType& x);  // of a weight or bias, which is a statistic

// Checks that input `x` is floating, of rank 2 or more, and that there is an attribute
// `group_rows`.
absl::Status CheckBatch(const InputCheck& check, int x, absl::Span<const TensorType> inputs);
// Checks that input `statistic` has one row for each of the groups of x.
absl::Status CheckStatistic(const InputCheck& check, int x, int statistic,
                            absl::Span<const TensorType> inputs, const Attributes& attributes);

// Returns how many groups `rows` rows are: ceil(rows / group_rows).
int64_t GroupsOfRows(int64_t rows, const Attributes& attributes);

// Returns the signatures of an operator on x, the first operand of kind kX, and on `groups` groups.
// Outputs of the kinds kStatistic and kCount are sums.
// - Split into whole groups, statistics are split as well.
// - Split elsewhere along rows, or along a dimension between rows and channels, sums are partial.
// - Split by channels, each device has the statistics of its own.
std::vector<Signature> GroupSignatures(const OpTypes& types, int64_t groups,
                                       absl::Span<const GroupOperand> inputs,
                                       absl::Span<const GroupOperand> outputs);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_BATCH_GROUPS_H_
