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

// Copies slices [begin, begin + size) of `from` along `dim` to slices from `to_begin` on of `to`.
// Slices that are out of range in either array are skipped.
void CopySlices(const LocalArray& from, int dim, int64_t begin, int64_t size, LocalArray* to,
                int64_t to_begin) {
  const int64_t outer = NumElements(absl::MakeSpan(from.shape).first(dim));
  const int64_t inner = NumElements(absl::MakeSpan(from.shape).subspan(dim + 1));
  size = std::min({size, from.shape[dim] - begin, to->shape[dim] - to_begin});
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < size * inner; ++i) {
      to->values[(o * to->shape[dim] + to_begin) * inner + i] =
          from.values[(o * from.shape[dim] + begin) * inner + i];
    }
  }
}

LocalArray Slices(const LocalArray& from, int dim, int64_t begin, int64_t size) {
  Shape shape = from.shape;
  shape[dim] = size;
  LocalArray result = Filled(std::move(shape), kPadding);
  CopySlices(from, dim, begin, size, &result, 0);
  return result;
}

// Returns the share of a partial element that one of `members` members holds. Sums are of integers,
// and so they are exact.
double ShareOf(double value, int64_t element, AxisLayout::Reduction reduction, int member,
               int members) {
  const auto draw = [&](int m) { return static_cast<double>((element * 7 + m * 5 + 3) % 11); };
  const int owner = static_cast<int>(element % members);
  if (member != owner) {
    switch (reduction) {
      case AxisLayout::Reduction::kSum:
        return draw(member);
      case AxisLayout::Reduction::kMax:
        return value - 1 - draw(member);
      case AxisLayout::Reduction::kMin:
        return value + 1 + draw(member);
      case AxisLayout::Reduction::kLogSumExp:  // an 11th of it each, or nothing of it
        return draw(member) < 4 ? -std::numeric_limits<double>::infinity() : value - std::log(11.0);
    }
  }
  double rest = reduction == AxisLayout::Reduction::kSum ? value : 1;
  for (int m = 0; m < members; ++m) {
    if (m == owner) continue;
    if (reduction == AxisLayout::Reduction::kSum) rest -= draw(m);
    if (reduction == AxisLayout::Reduction::kLogSumExp && draw(m) >= 4) rest -= 1 / 11.0;
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

// Returns the buffer of the rank at coordinate `c` of a group after a step; `group` has the buffers
// of all its ranks before it.
LocalArray RunOnRank(const RedistributionStep& step, absl::Span<const LocalArray> group, int c,
                     const Shape& output) {
  const AxisLayout& before = step.from.axis(step.axis);
  const AxisLayout& after = step.to.axis(step.axis);
  const Shape& input = group[c].shape;
  LocalArray result = Filled(output, kPadding);
  std::vector<LocalArray> received;
  switch (step.kind) {
    case Kind::kAllGather:
    case Kind::kAllToAll:
      for (size_t r = 0; r < group.size(); ++r) {
        const int64_t begin = static_cast<int64_t>(r) * input[before.dim];
        if (begin >= output[before.dim]) break;
        LocalArray block = group[r];
        if (step.kind == Kind::kAllToAll) {
          block = Slices(group[r], after.dim, c * output[after.dim], output[after.dim]);
        }
        CopySlices(block, before.dim, 0, input[before.dim], &result, begin);
      }
      return result;
    case Kind::kReduceScatter:
      for (const LocalArray& array : group) {
        received.push_back(Slices(array, after.dim, c * output[after.dim], output[after.dim]));
      }
      return Reduce(received, before.reduction);
    case Kind::kAllReduce:
      return Reduce(group, before.reduction);
    case Kind::kSlice:
      return Slices(group[c], after.dim, c * output[after.dim], output[after.dim]);
    case Kind::kZeroElsewhere:
      if (before.broadcast() && c == 0) return group[c];
      result = Filled(output, 0);
      if (before.split()) {
        CopySlices(group[c], before.dim, 0, input[before.dim], &result, c * input[before.dim]);
      }
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
  RankArrays result{step.to, std::vector<LocalArray>(mesh.size())};
  for (const std::vector<int>& group : mesh.GroupsAlong({step.axis})) {
    std::vector<LocalArray> buffers;
    buffers.reserve(group.size());
    for (int rank : group) buffers.push_back(arrays.ranks[rank]);
    for (size_t c = 0; c < group.size(); ++c) {
      result.ranks[group[c]] = RunOnRank(step, buffers, static_cast<int>(c), output);
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
