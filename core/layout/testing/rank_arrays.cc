#include "core/layout/testing/rank_arrays.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

using Kind = RedistributionStep::Kind;
constexpr double kPadding = std::numeric_limits<double>::quiet_NaN();

LocalArray Filled(Shape shape, double value) {
  std::vector<double> values(NumElements(shape), value);
  return {std::move(shape), std::move(values)};
}

// Returns the share of a partial element that one of `members` members holds. Sums are of integers,
// and so they are exact.
double ShareOf(double value, int64_t element, AxisLayout::Reduction reduction, int member,
               int members) {
  const auto draw = [&](int m) { return static_cast<double>((element * 7 + m * 5 + 3) % 11); };
  const int owner = static_cast<int>(element % members);
  const double parts = members + 3;  // of the exponential
  if (member != owner) {
    switch (reduction) {
      case AxisLayout::Reduction::kSum:
        return draw(member);
      case AxisLayout::Reduction::kMax:
        return value - 1 - draw(member);
      case AxisLayout::Reduction::kMin:
        return value + 1 + draw(member);
      case AxisLayout::Reduction::kLogSumExp:  // the same part of it each, or nothing of it
        return draw(member) < 4 ? -std::numeric_limits<double>::infinity()
                                : value - std::log(parts);
    }
  }
  double rest = reduction == AxisLayout::Reduction::kSum ? value : 1;
  for (int m = 0; m < members; ++m) {
    if (m == owner) continue;
    if (reduction == AxisLayout::Reduction::kSum) rest -= draw(m);
    if (reduction == AxisLayout::Reduction::kLogSumExp && draw(m) >= 4) rest -= 1 / parts;
  }
  if (reduction == AxisLayout::Reduction::kSum) return rest;
  if (reduction == AxisLayout::Reduction::kLogSumExp) return value + std::log(rest);
  return value;
}

std::vector<int> PartialAxes(const MeshLayout& layout) {
  std::vector<int> axes;
  for (int i = 0; i < layout.num_axes(); ++i) {
    if (layout.axis(i).partial()) axes.push_back(i);
  }
  return axes;
}

// Calls visit(global index, local index) for each element of a box.
template <typename Visit>
void ForEachElement(const Box& box, const Shape& global, const Shape& local, const Visit& visit) {
  const Strides global_strides = RowMajorStrides(global), local_strides = RowMajorStrides(local);
  const Strides box_strides = RowMajorStrides(box.extent);
  for (int64_t i = 0; i < NumElements(box.extent); ++i) {
    int64_t global_index = 0, local_index = 0;
    for (size_t d = 0; d < global.size(); ++d) {
      const int64_t index = i / box_strides[d] % box.extent[d];
      global_index += (box.start[d] + index) * global_strides[d];
      local_index += index * local_strides[d];
    }
    visit(global_index, local_index);
  }
}

LocalArray Reduce(absl::Span<const LocalArray> inputs, AxisLayout::Reduction reduction) {
  LocalArray result = inputs[0];
  std::vector<double> shares(inputs.size());
  for (size_t i = 0; i < result.values.size(); ++i) {
    for (size_t r = 0; r < inputs.size(); ++r) shares[r] = inputs[r].values[i];
    result.values[i] = Combine(reduction, shares);
  }
  return result;
}

// Copies the elements that two boxes of a tensor have in common, between arrays of the boxes.
void CopyCommon(const LocalArray& from, const Box& from_box, const Box& to_box, LocalArray* to) {
  Box common = from_box;
  const size_t dims = common.start.size();
  for (size_t d = 0; d < dims; ++d) {
    const int64_t end = std::min(from_box.start[d] + from_box.extent[d],  //
                                 to_box.start[d] + to_box.extent[d]);
    common.start[d] = std::max(from_box.start[d], to_box.start[d]);
    common.extent[d] = std::max<int64_t>(0, end - common.start[d]);
  }
  const Strides from_strides = RowMajorStrides(from.shape), to_strides = RowMajorStrides(to->shape);
  const Strides strides = RowMajorStrides(common.extent);
  for (int64_t i = 0; i < NumElements(common.extent); ++i) {
    int64_t from_index = 0, to_index = 0;
    for (size_t d = 0; d < dims; ++d) {
      const int64_t at = common.start[d] + i / strides[d] % common.extent[d];
      from_index += (at - from_box.start[d]) * from_strides[d];
      to_index += (at - to_box.start[d]) * to_strides[d];
    }
    to->values[to_index] = from.values[from_index];
  }
}

// Returns the layout with only its splits along `axes`.
MeshLayout SplitsAlong(const MeshLayout& layout, absl::Span<const int> axes) {
  MeshLayout result(layout.num_axes());
  for (const int axis : layout.NestingOrder()) {
    const bool along = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (along && layout.axis(axis).split()) result = result.With(axis, layout.axis(axis));
  }
  return result;
}

// Returns the buffer of rank `c` of a group after a step. `group` has the buffers of all its ranks
// before it; `before` and `after` are the boxes that they hold of what the group holds together.
LocalArray RunOnRank(const RedistributionStep& step, absl::Span<const LocalArray> group,
                     absl::Span<const Box> before, absl::Span<const Box> after, size_t c,
                     const Shape& output) {
  const AxisLayout& axis = step.from.axis(step.axes[0]);
  LocalArray result = Filled(output, kPadding);
  std::vector<LocalArray> received(group.size(), result);
  switch (step.kind) {
    case Kind::kAllGather:
    case Kind::kAllToAll:
      for (size_t r = 0; r < group.size(); ++r) CopyCommon(group[r], before[r], after[c], &result);
      return result;
    case Kind::kReduceScatter:
    case Kind::kAllReduce:
      for (size_t r = 0; r < group.size(); ++r) {
        CopyCommon(group[r], before[r], after[c], &received[r]);
      }
      return Reduce(received, axis.reduction);
    case Kind::kSlice:
      CopyCommon(group[c], before[c], after[c], &result);
      return result;
    case Kind::kZeroElsewhere:
      if (axis.broadcast() && c == 0) return group[c];
      result = Filled(output, 0);
      if (axis.split()) CopyCommon(group[c], before[c], after[c], &result);
      return result;
  }
  return result;
}

}  // namespace

double Combine(AxisLayout::Reduction reduction, absl::Span<const double> shares) {
  double result = 0;
  const double max = *std::max_element(shares.begin(), shares.end());
  switch (reduction) {
    case AxisLayout::Reduction::kSum:
      for (double share : shares) result += share;
      return result;
    case AxisLayout::Reduction::kMax:
      return max;
    case AxisLayout::Reduction::kMin:
      return *std::min_element(shares.begin(), shares.end());
    case AxisLayout::Reduction::kLogSumExp:
      if (std::isinf(max)) return max;
      for (double share : shares) result += std::exp(share - max);
      return max + std::log(result);
  }
  return 0;
}

Mesh MeshOfSizes(const std::vector<int>& sizes) {
  std::vector<Mesh::Axis> axes;
  for (const int size : sizes) axes.push_back({absl::StrCat("a", axes.size()), size});
  return *Mesh::Create(std::move(axes));
}

std::vector<MeshLayout> AllLayouts(const Mesh& mesh, absl::Span<const AxisLayout> along) {
  std::vector<MeshLayout> layouts = {MeshLayout(mesh.num_axes())};
  for (size_t done = 0; done < layouts.size(); ++done) {
    const MeshLayout layout = layouts[done];
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (!layout.axis(axis).broadcast()) continue;
      for (const AxisLayout& next : along) {
        const MeshLayout more = layout.With(axis, next);
        if (std::find(layouts.begin(), layouts.end(), more) == layouts.end()) {
          layouts.push_back(more);
        }
      }
    }
  }
  return layouts;
}

RankArrays Distribute(absl::Span<const double> values, const Shape& shape, const MeshLayout& layout,
                      const Mesh& mesh) {
  const Shape local = LocalShape(layout, shape, mesh);
  const std::vector<int> partial = PartialAxes(layout);
  RankArrays arrays{layout, {}};
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const MeshCoordinates coordinates = mesh.CoordinatesOf(rank);
    LocalArray array = Filled(local, kPadding);
    int member = 0, members = 1;
    for (int axis : partial) {
      member = member * mesh.axis(axis).size + coordinates[axis];
      members *= mesh.axis(axis).size;
    }
    ForEachElement(
        BoxOf(layout, shape, mesh, coordinates), shape, local, [&](int64_t from, int64_t to) {
          array.values[to] =
              partial.empty()
                  ? values[from]
                  : ShareOf(values[from], from, layout.axis(partial[0]).reduction, member, members);
        });
    arrays.ranks.push_back(std::move(array));
  }
  return arrays;
}

RankArrays RunStep(const RedistributionStep& step, const RankArrays& arrays, const Shape& shape,
                   const Mesh& mesh) {
  const Shape output = LocalShape(step.to, shape, mesh);
  const Shape together = LocalShape(WithBroadcast(step.from, step.axes), shape, mesh);
  const MeshLayout from = SplitsAlong(step.from, step.axes), to = SplitsAlong(step.to, step.axes);
  RankArrays result{step.to, std::vector<LocalArray>(mesh.size())};
  for (const std::vector<int>& group : mesh.GroupsAlong(step.axes)) {
    std::vector<LocalArray> buffers;
    std::vector<Box> before, after;
    for (const int rank : group) {
      const MeshCoordinates coordinates = mesh.CoordinatesOf(rank);
      buffers.push_back(arrays.ranks[rank]);
      before.push_back(BoxOf(from, together, mesh, coordinates));
      after.push_back(BoxOf(to, together, mesh, coordinates));
    }
    for (size_t c = 0; c < group.size(); ++c) {
      result.ranks[group[c]] = RunOnRank(step, buffers, before, after, c, output);
    }
  }
  return result;
}

std::string Difference(const RankArrays& arrays, absl::Span<const double> values,
                       const Shape& shape, const Mesh& mesh) {
  const Shape local = LocalShape(arrays.layout, shape, mesh);
  const std::vector<int> partial = PartialAxes(arrays.layout);
  const bool exact = partial.empty() || arrays.layout.axis(partial[0]) == AxisLayout::Partial();
  std::string difference;
  for (const std::vector<int>& group : mesh.GroupsAlong(partial)) {
    const Box box = BoxOf(arrays.layout, shape, mesh, mesh.CoordinatesOf(group[0]));
    for (int rank : group) {
      if (arrays.ranks[rank].shape != local)
        return absl::StrCat("rank ", rank, " has a wrong shape");
    }
    ForEachElement(box, shape, local, [&](int64_t from, int64_t to) {
      std::vector<double> shares;
      for (int rank : group) shares.push_back(arrays.ranks[rank].values[to]);
      const double combined =
          partial.empty() ? shares[0] : Combine(arrays.layout.axis(partial[0]).reduction, shares);
      const double error = std::abs(combined - values[from]);
      if (error <= (exact ? 1e-12 : 1e-9)) return;
      difference = absl::StrCat("rank ", group[0], " has ", combined, " and not ", values[from],
                                " of element ", from);
    });
  }
  return difference;
}

}  // namespace tessera
