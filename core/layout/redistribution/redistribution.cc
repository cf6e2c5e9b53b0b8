#include "core/layout/redistribution/redistribution.h"

#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/layout/redistribution/redistribution_search.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using Kind = RedistributionStep::Kind;

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

// Returns the number of elements of the buffer that holds all parts along `dim`. If parts are
// consecutive in memory, the last ones are as short as the data; otherwise all are padded.
int64_t BufferElements(const Shape& full, int dim, int64_t part, int ranks) {
  const bool consecutive = NumElements(absl::MakeSpan(full).first(dim)) == 1;
  return consecutive ? NumElements(full) : part * ranks;
}

}  // namespace

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
  return absl::StrCat(KindName(kind), " along ", mesh.axis(axis).name, ": ", from.ToString(mesh),
                      " => ", to.ToString(mesh));
}

std::string Redistribution::ToString(const Mesh& mesh) const {
  std::string text;
  for (const RedistributionStep& step : steps) absl::StrAppend(&text, step.ToString(mesh), "\n");
  return text;
}

std::vector<CollectiveCall> CollectivesOf(const RedistributionStep& step, const TensorType& type,
                                          const Mesh& mesh) {
  if (step.kind == Kind::kSlice || step.kind == Kind::kZeroElsewhere) return {};
  const int ranks = mesh.axis(step.axis).size;
  const AxisLayout& before = step.from.axis(step.axis);
  const AxisLayout& after = step.to.axis(step.axis);
  const Shape input = LocalShape(step.from, type.shape, mesh);
  const Shape output = LocalShape(step.to, type.shape, mesh);

  CollectiveCall call;
  call.dtype = type.dtype;
  call.axes = {step.axis};
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
    call.count = BufferElements(output, before.dim, call.part, ranks);
  } else if (step.kind == Kind::kReduceScatter) {
    call.operation = CollectiveOperation::kReduceScatter;
    call.part = NumElements(output);
    call.count = BufferElements(input, after.dim, call.part, ranks);
  } else if (step.kind == Kind::kAllToAll) {
    Shape block = input;
    block[after.dim] = output[after.dim];
    call.operation = CollectiveOperation::kAllToAll;
    call.part = NumElements(block);
    call.count = call.part * ranks;
  } else {
    call.count = NumElements(input);
  }
  calls.push_back(std::move(call));
  return calls;
}

absl::StatusOr<const Redistribution*> RedistributionFinder::Find(const MeshLayout& from,
                                                                 const MeshLayout& to,
                                                                 const TensorType& type) {
  RETURN_IF_ERROR(CheckLayout(from, type.shape, mesh_));
  RETURN_IF_ERROR(CheckLayout(to, type.shape, mesh_));
  Key key(from, to, type.shape, type.dtype);
  {
    MutexLock lock(&mutex_);
    if (const auto known = found_.find(key); known != found_.end()) return known->second.get();
  }
  std::optional<Redistribution> path = SearchRedistribution(from, to, type, mesh_, *prices_);
  if (!path.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a value cannot be brought from layout '", from.ToString(mesh_), "' to '",
        to.ToString(mesh_), "'; only sums can be made partial, and only of values that are no ",
        "partial maxima or log-sum-exps"));
  }
  MutexLock lock(&mutex_);  // another thread may have found the same in the meantime
  return found_.try_emplace(std::move(key), std::make_unique<Redistribution>(*std::move(path)))
      .first->second.get();
}

}  // namespace tessera
