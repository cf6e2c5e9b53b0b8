#include "core/layout/layout_proto.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

constexpr int kMaxOperands = 4096;

template <typename Messages>
absl::StatusOr<std::vector<AxisLayout>> LayoutsFromProto(const Messages& messages) {
  if (messages.size() > kMaxOperands) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a signature of ", messages.size(), " values; at most ", kMaxOperands, " are possible"));
  }
  std::vector<AxisLayout> layouts;
  layouts.reserve(messages.size());
  for (const AxisLayoutProto& message : messages) {
    ASSIGN_OR_RETURN(const AxisLayout layout, FromProto(message));
    layouts.push_back(layout);
  }
  return layouts;
}

}  // namespace

AxisLayoutProto ToProto(const AxisLayout& layout) {
  AxisLayoutProto message;
  if (layout.split()) {
    message.set_kind(AxisLayoutProto::SPLIT);
    message.set_dim(layout.dim);
    message.set_unit(layout.unit);
  } else if (layout.partial()) {
    switch (layout.reduction) {
      case AxisLayout::Reduction::kSum:
        message.set_kind(AxisLayoutProto::PARTIAL_SUM);
        break;
      case AxisLayout::Reduction::kMax:
        message.set_kind(AxisLayoutProto::PARTIAL_MAX);
        break;
      case AxisLayout::Reduction::kLogSumExp:
        message.set_kind(AxisLayoutProto::PARTIAL_LOG_SUM_EXP);
        break;
      case AxisLayout::Reduction::kMin:
        message.set_kind(AxisLayoutProto::PARTIAL_MIN);
        break;
    }
  }
  return message;
}

absl::StatusOr<AxisLayout> FromProto(const AxisLayoutProto& message) {
  switch (message.kind()) {
    case AxisLayoutProto::BROADCAST:
      return AxisLayout::Broadcast();
    case AxisLayoutProto::SPLIT:
      if (message.dim() < 0 || message.dim() > kMaxSplitDim) {
        return absl::InvalidArgumentError(absl::StrCat("a split of dimension ", message.dim(),
                                                       "; it must be in 0..", kMaxSplitDim));
      }
      if (message.unit() < 0 || message.unit() > kMaxSplitUnit) {
        return absl::InvalidArgumentError(absl::StrCat(
            "a split in units of ", message.unit(), " elements; it must be in 1..", kMaxSplitUnit));
      }
      return AxisLayout::Split(message.dim(), std::max<int64_t>(message.unit(), 1));
    case AxisLayoutProto::PARTIAL_SUM:
      return AxisLayout::Partial(AxisLayout::Reduction::kSum);
    case AxisLayoutProto::PARTIAL_MAX:
      return AxisLayout::Partial(AxisLayout::Reduction::kMax);
    case AxisLayoutProto::PARTIAL_LOG_SUM_EXP:
      return AxisLayout::Partial(AxisLayout::Reduction::kLogSumExp);
    case AxisLayoutProto::PARTIAL_MIN:
      return AxisLayout::Partial(AxisLayout::Reduction::kMin);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("a layout of kind ", message.kind(), ", which this version does not know"));
  }
}

SignatureProto ToProto(const Signature& signature) {
  SignatureProto message;
  for (const AxisLayout& layout : signature.inputs) *message.add_inputs() = ToProto(layout);
  for (const AxisLayout& layout : signature.outputs) *message.add_outputs() = ToProto(layout);
  return message;
}

absl::StatusOr<Signature> FromProto(const SignatureProto& message) {
  Signature signature;
  ASSIGN_OR_RETURN(signature.inputs, LayoutsFromProto(message.inputs()));
  ASSIGN_OR_RETURN(signature.outputs, LayoutsFromProto(message.outputs()));
  return signature;
}

LayoutProto ToProto(const MeshLayout& layout, const Mesh& mesh) {
  LayoutProto message;
  for (int axis : layout.NestingOrder()) {
    LayoutProto::Clause& clause = *message.add_clauses();
    clause.set_axis(mesh.axis(axis).name);
    *clause.mutable_layout() = ToProto(layout.axis(axis));
  }
  return message;
}

absl::StatusOr<MeshLayout> FromProto(const LayoutProto& message, const Mesh& mesh) {
  MeshLayout layout(mesh.num_axes());
  std::vector<bool> named(mesh.num_axes(), false);
  for (const LayoutProto::Clause& clause : message.clauses()) {
    ASSIGN_OR_RETURN(const int axis, mesh.FindAxis(clause.axis()));
    if (named[axis]) {
      return absl::InvalidArgumentError(
          absl::StrCat("a layout names axis ", Quote(clause.axis()), " twice"));
    }
    named[axis] = true;
    ASSIGN_OR_RETURN(const AxisLayout along, FromProto(clause.layout()));
    layout = layout.With(axis, along);
  }
  return layout;
}

google::protobuf::RepeatedPtrField<MeshAxis> ToProto(const Mesh& mesh) {
  google::protobuf::RepeatedPtrField<MeshAxis> messages;
  for (const Mesh::Axis& axis : mesh.axes()) {
    MeshAxis* message = messages.Add();
    message->set_name(axis.name);
    message->set_size(axis.size);
  }
  return messages;
}

std::vector<Mesh::Axis> AxesFromProto(const google::protobuf::RepeatedPtrField<MeshAxis>& axes) {
  std::vector<Mesh::Axis> result;
  result.reserve(axes.size());
  for (const MeshAxis& axis : axes) {
    // Sizes that do not fit an int are not valid for a mesh either.
    const int64_t size = std::clamp<int64_t>(axis.size(), -1, std::numeric_limits<int>::max());
    result.push_back({axis.name(), static_cast<int>(size)});
  }
  return result;
}

}  // namespace tessera
