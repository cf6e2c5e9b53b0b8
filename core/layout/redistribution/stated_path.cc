#include "core/layout/redistribution/stated_path.h"

#include <array>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/layout/layout_text.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

using Kind = RedistributionStep::Kind;

constexpr std::array kKinds = {Kind::kAllGather, Kind::kReduceScatter, Kind::kAllReduce,
                               Kind::kAllToAll,  Kind::kSlice,         Kind::kZeroElsewhere};

// Returns text like "partial values to B": what a kind goes from and to, along its axes.
absl::string_view NeedOf(Kind kind) {
  switch (kind) {
    case Kind::kAllGather:
      return "innermost splits to B";
    case Kind::kReduceScatter:
      return "partial values to innermost splits";
    case Kind::kAllReduce:
      return "partial values to B";
    case Kind::kAllToAll:
      return "innermost splits to innermost splits of other dimensions";
    case Kind::kSlice:
      return "B to a split, along one axis";
    case Kind::kZeroElsewhere:
      return "B or an innermost split to P, along one axis";
  }
  return "";
}

// Returns whether the layout is split along all of the axes, innermost in its dimensions.
bool IsSplitInnermost(const MeshLayout& layout, absl::Span<const int> axes) {
  return absl::c_all_of(axes, [&](int axis) { return layout.axis(axis).split(); }) &&
         AreInnermost(layout, axes);
}

bool IsPartial(const MeshLayout& layout, absl::Span<const int> axes) {
  return absl::c_all_of(axes, [&](int axis) { return layout.axis(axis).partial(); });
}

bool SplitsOtherDimensions(const RedistributionStep& step) {
  return absl::c_none_of(step.axes, [&](int a) {
    return absl::c_any_of(step.axes,
                          [&](int b) { return step.from.axis(a).dim == step.to.axis(b).dim; });
  });
}

// Returns whether the layouts of a step, which differ along its axes only, are those of its kind.
bool IsOfItsKind(const RedistributionStep& step) {
  const MeshLayout &from = step.from, &to = step.to;
  const bool to_broadcast = WithBroadcast(to, step.axes) == to;
  const bool from_broadcast = WithBroadcast(from, step.axes) == from;
  switch (step.kind) {
    case Kind::kAllGather:
      return IsSplitInnermost(from, step.axes) && to_broadcast;
    case Kind::kReduceScatter:
      return IsPartial(from, step.axes) && IsSplitInnermost(to, step.axes);
    case Kind::kAllReduce:
      return IsPartial(from, step.axes) && to_broadcast;
    case Kind::kAllToAll:
      return IsSplitInnermost(from, step.axes) && IsSplitInnermost(to, step.axes) &&
             SplitsOtherDimensions(step);
    case Kind::kSlice:
      return step.axes.size() == 1 && from_broadcast && IsSplitInnermost(to, step.axes);
    case Kind::kZeroElsewhere:
      return step.axes.size() == 1 && (from_broadcast || IsSplitInnermost(from, step.axes)) &&
             to.axis(step.axes[0]) == AxisLayout::Partial();
  }
  return false;
}

absl::Status CheckStep(const RedistributionStep& step, const TensorType& type, const Mesh& mesh) {
  const auto error = [&](const auto&... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", Quote(step.ToString(mesh)), " ", parts...));
  };
  for (const MeshLayout* layout : {&step.from, &step.to}) {
    if (const absl::Status fits = CheckLayout(*layout, type.shape, mesh); !fits.ok()) {
      return error("has a layout that does not fit: ", fits.message());
    }
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (mesh.axis(axis).size > 1 || layout->axis(axis).broadcast()) continue;
      return error("has a layout along ", mesh.axis(axis).name,
                   ", which has one rank; in a step such an axis is B");
    }
  }
  for (const int axis : step.axes) {
    if (mesh.axis(axis).size == 1) {
      return error("is along ", mesh.axis(axis).name, ", which has one rank");
    }
  }
  if (WithBroadcast(step.from, step.axes) != WithBroadcast(step.to, step.axes)) {
    return error("changes the layout along other axes than its own");
  }
  if (IsOfItsKind(step)) return absl::OkStatus();
  return error("is not possible; its kind goes from ", NeedOf(step.kind));
}

}  // namespace

absl::StatusOr<RedistributionStep> ParseStep(absl::string_view text, const Mesh& mesh) {
  const auto error = [text](absl::string_view fault) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", Quote(text), " ", fault,
        "; one looks like 'all-gather along data: data: S(0) => B', and its kind is ",
        absl::StrJoin(kKinds, ", ",
                      [](std::string* out, Kind kind) { absl::StrAppend(out, KindName(kind)); })));
  };
  RedistributionStep step;
  const std::pair<absl::string_view, absl::string_view> layouts =
      absl::StrSplit(text, absl::MaxSplits(" => ", 1));
  const std::pair<absl::string_view, absl::string_view> head =
      absl::StrSplit(layouts.first, absl::MaxSplits(": ", 1));
  const std::pair<absl::string_view, absl::string_view> name =
      absl::StrSplit(head.first, absl::MaxSplits(" along ", 1));
  const auto* const kind = absl::c_find_if(kKinds, [&](Kind known) {
    return KindName(known) == absl::StripAsciiWhitespace(name.first);
  });
  if (kind == kKinds.end()) return error("is of no known kind");
  if (name.second.empty()) return error("names no axis");
  if (layouts.second.empty() || head.second.empty()) return error("lacks a layout");
  step.kind = *kind;
  for (const absl::string_view axis_name : absl::StrSplit(name.second, " and ")) {
    ASSIGN_OR_RETURN(const int axis, mesh.FindAxis(absl::StripAsciiWhitespace(axis_name)));
    if (absl::c_linear_search(step.axes, axis)) return error("names an axis twice");
    step.axes.push_back(axis);
  }
  absl::c_sort(step.axes);
  ASSIGN_OR_RETURN(step.from, ParseMeshLayout(head.second, mesh));
  ASSIGN_OR_RETURN(step.to, ParseMeshLayout(layouts.second, mesh));
  return step;
}

absl::Status CheckPath(absl::Span<const RedistributionStep> steps, const MeshLayout& from,
                       const MeshLayout& to, const TensorType& type, const Mesh& mesh) {
  RETURN_IF_ERROR(CheckLayout(from, type.shape, mesh));
  RETURN_IF_ERROR(CheckLayout(to, type.shape, mesh));
  const MeshLayout* layout = &from;
  for (const RedistributionStep& step : steps) {
    RETURN_IF_ERROR(CheckStep(step, type, mesh));
    if (!HoldSameElements(*layout, step.from, type.shape, mesh)) {
      return absl::InvalidArgumentError(absl::StrCat("step ", Quote(step.ToString(mesh)),
                                                     " begins where the value is in layout '",
                                                     layout->ToString(mesh), "'"));
    }
    layout = &step.to;
  }
  if (HoldSameElements(*layout, to, type.shape, mesh)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("its steps end in layout '",
                                                 layout->ToString(mesh), "' instead of '",
                                                 to.ToString(mesh), "'"));
}

}  // namespace tessera
