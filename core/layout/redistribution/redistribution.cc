#include "core/layout/redistribution/redistribution.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera {
namespace {

using Kind = RedistributionStep::Kind;

// Returns whether the parts of a tensor that `layout` splits along `axes`, in the order of their
// ranks, are consecutive in memory.
bool PartsAreConsecutive(Shape tensor, const MeshLayout& layout, absl::Span<const int> axes,
                         const Mesh& mesh) {
  const int dim = layout.axis(axes[0]).dim;
  if (NumElements(absl::MakeSpan(tensor).first(dim)) != 1) return false;
  const absl::InlinedVector<int, 4> nested = layout.AxesSplitting(dim);
  if (nested.size() < axes.size()) return false;  // some split other dimensions
  if (!std::equal(axes.rbegin(), axes.rend(), nested.rbegin())) return false;
  int64_t outer = tensor[dim];
  for (const int axis : axes) {
    const int64_t part = PartExtent(outer, layout.axis(axis).unit, mesh.axis(axis).size);
    if (axis != axes[0] && part * mesh.axis(axis).size != outer) return false;
    outer = part;
  }
  return true;
}

// Returns the number of elements of the buffer that holds all parts. If they are consecutive in
// memory, the last ones are as short as the data; otherwise all are padded.
int64_t BufferElements(const Shape& tensor, const MeshLayout& layout, absl::Span<const int> axes,
                       const Mesh& mesh, int64_t padded) {
  return PartsAreConsecutive(tensor, layout, axes, mesh) ? NumElements(tensor) : padded;
}

}  // namespace

absl::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kAllGather:
      return "all-gather";
    case Kind::kReduceScatter:
      return "reduce-scatter";
    case Kind::kAllReduce:
      return "all-reduce";
    case Kind::kAllToAll:
      return "all-to-all";
    case Kind::kSlice:
      return "slice";
    case Kind::kZeroElsewhere:
      return "zero elsewhere";
  }
  return "?";
}

MeshLayout WithBroadcast(MeshLayout layout, absl::Span<const int> axes) {
  for (const int axis : axes) layout = layout.With(axis, AxisLayout::Broadcast());
  return layout;
}

bool AreInnermost(const MeshLayout& layout, absl::Span<const int> axes) {
  for (const int axis : axes) {
    const auto nested = layout.AxesSplitting(layout.axis(axis).dim);
    for (size_t i = nested.size(); nested[i - 1] != axis; --i) {
      if (std::find(axes.begin(), axes.end(), nested[i - 1]) == axes.end()) return false;
    }
  }
  return true;
}

Reduction ReductionOf(const AxisLayout& partial) {
  switch (partial.reduction) {
    case AxisLayout::Reduction::kMax:
      return Reduction::kMax;
    case AxisLayout::Reduction::kMin:
      return Reduction::kMin;
    default:  // for P(lse), sums of exponentials
      return Reduction::kSum;
  }
}

std::string RedistributionStep::ToString(const Mesh& mesh) const {
  const std::string names = absl::StrJoin(axes, " and ", [&](std::string* out, int axis) {
    absl::StrAppend(out, mesh.axis(axis).name);
  });
  return absl::StrCat(KindName(kind), " along ", names, ": ", from.ToString(mesh), " => ",
                      to.ToString(mesh));
}

std::string Redistribution::ToString(const Mesh& mesh) const {
  std::string text;
  for (const RedistributionStep& step : steps) absl::StrAppend(&text, step.ToString(mesh), "\n");
  return text;
}

double SecondsOf(absl::Span<const RedistributionStep> steps, const TensorType& type,
                 const Mesh& mesh, const CollectivePrices& prices) {
  double seconds = 0;
  for (const RedistributionStep& step : steps) {
    for (const CollectiveCall& call : CollectivesOf(step, type, mesh)) {
      seconds += prices.Seconds(call, mesh);
    }
  }
  return seconds;
}

std::vector<CollectiveCall> CollectivesOf(const RedistributionStep& step, const TensorType& type,
                                          const Mesh& mesh) {
  return CollectivesOf(step, type.dtype, LocalShape(step.from, type.shape, mesh),
                       LocalShape(step.to, type.shape, mesh), mesh);
}

std::vector<CollectiveCall> CollectivesOf(const RedistributionStep& step, DType dtype,
                                          const Shape& input, const Shape& output,
                                          const Mesh& mesh) {
  if (step.kind == Kind::kSlice || step.kind == Kind::kZeroElsewhere) return {};
  int64_t ranks = 1;
  for (const int axis : step.axes) ranks *= mesh.axis(axis).size;
  const AxisLayout& before = step.from.axis(step.axes[0]);

  CollectiveCall call;
  call.dtype = dtype;
  call.axes.assign(step.axes.begin(), step.axes.end());
  std::vector<CollectiveCall> calls;
  if (before.partial()) {
    call.reduction = ReductionOf(before);
    if (before.reduction == AxisLayout::Reduction::kLogSumExp) {
      calls.push_back(call);
      calls[0].reduction = Reduction::kMax;
      calls[0].count = NumElements(input);
    }
  }
  if (step.kind == Kind::kAllGather) {
    call.operation = CollectiveOperation::kAllGather;
    call.part = NumElements(input);
    call.count = BufferElements(output, step.from, step.axes, mesh, call.part * ranks);
  } else if (step.kind == Kind::kReduceScatter) {
    call.operation = CollectiveOperation::kReduceScatter;
    call.part = NumElements(output);
    call.count = BufferElements(input, step.to, step.axes, mesh, call.part * ranks);
  } else if (step.kind == Kind::kAllToAll) {
    Shape block = input;
    for (const int axis : step.axes) {
      const int dim = step.to.axis(axis).dim;
      block[dim] = output[dim];
    }
    call.operation = CollectiveOperation::kAllToAll;
    call.part = NumElements(block);
    call.count = call.part * ranks;
  } else {
    call.count = NumElements(input);
  }
  calls.push_back(std::move(call));
  return calls;
}

}  // namespace tessera
