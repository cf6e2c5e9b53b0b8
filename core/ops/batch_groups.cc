#include "core/ops/batch_groups.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::B;
using sbp::P;
using sbp::S;

constexpr int64_t kMostRows = int64_t{1} << 40;

// The layouts of operands of each kind, if x is split in one way.
struct KindLayouts {
  AxisLayout x, rows, statistic, count, channels;

  AxisLayout Of(GroupOperand kind) const {
    switch (kind) {
      case GroupOperand::kX:
        return x;
      case GroupOperand::kRows:
        return rows;
      case GroupOperand::kStatistic:
        return statistic;
      case GroupOperand::kCount:
        return count;
      case GroupOperand::kChannels:
        return channels;
    }
    return B();
  }
};

}  // namespace

TensorType StatisticType(const TensorType& x, int64_t groups) {
  return {StatisticDType(x.dtype), {groups, x.shape.back()}};
}

TensorType RowsType(const TensorType& x) { return {StatisticDType(x.dtype), {x.shape[0]}}; }

TensorType ChannelsType(const TensorType& x) { return {StatisticDType(x.dtype), {x.shape.back()}}; }

absl::Status CheckBatch(const InputCheck& check, int x, absl::Span<const TensorType> inputs) {
  RETURN_IF_ERROR(check.Floating(x));
  RETURN_IF_ERROR(check.MinRank(x, 2));
  return check.IntIn("group_rows", 1, kMostRows);
}

absl::Status CheckStatistic(const InputCheck& check, int x, int statistic,
                            absl::Span<const TensorType> inputs, const Attributes& attributes) {
  const TensorType& batch = inputs[x];
  const Shape& shape = inputs[statistic].shape;
  if (shape.size() != 2) return check.Misfit(statistic, "of rank 2, [groups, channels]");
  RETURN_IF_ERROR(check.Is(statistic, StatisticType(batch, shape[0])));
  const int64_t groups = GroupsOfRows(batch.shape[0], attributes);
  if (groups <= shape[0]) return absl::OkStatus();
  return check.Misfit(statistic,
                      absl::StrCat("of ", groups, " groups or more, as ", batch.shape[0],
                                   " rows are groups of ", attributes.GetInt("group_rows")));
}

int64_t GroupsOfRows(int64_t rows, const Attributes& attributes) {
  return rows == 0 ? 0 : (rows - 1) / attributes.GetInt("group_rows") + 1;
}

std::vector<Signature> GroupSignatures(const OpTypes& types, int64_t groups,
                                       absl::Span<const GroupOperand> inputs,
                                       absl::Span<const GroupOperand> outputs) {
  std::vector<Signature> signatures;
  const auto add = [&](const KindLayouts& layouts, const AxisLayout& sums) {
    Signature& signature = signatures.emplace_back();
    for (const GroupOperand kind : inputs) signature.inputs.push_back(layouts.Of(kind));
    for (const GroupOperand kind : outputs) {
      const bool is_sum = kind == GroupOperand::kStatistic || kind == GroupOperand::kCount;
      const AxisLayout layout = layouts.Of(kind);
      signature.outputs.push_back(is_sum && layout.broadcast() ? sums : layout);
    }
  };
  const Shape& x = types.inputs[absl::c_find(inputs, GroupOperand::kX) - inputs.begin()].shape;
  const int channels = static_cast<int>(x.size()) - 1;
  const int64_t group_rows = types.attributes.GetInt("group_rows");
  // The rows of a device that has a part of each group's are no groups by themselves.
  if (groups > 1 && GroupsOfRows(x[0], types.attributes) == groups) {
    add({S(0, group_rows), S(0, group_rows), S(0), S(0), B()}, B());
  }
  add({S(0), S(0), B(), B(), B()}, P());
  for (int d = 1; d < channels; ++d) add({S(d), B(), B(), B(), B()}, P());
  add({S(channels), B(), S(1), B(), S(0)}, B());
  return signatures;
}

}  // namespace tessera
