#include "core/program/lower/lower_redistribution.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using Kind = RedistributionStep::Kind;

// Returns the lowest finite number of a floating dtype.
double LowestOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::numeric_limits<double>::lowest();
    case DType::kBF16:
      return -0x1.FEp127;
    case DType::kF16:
      return -65504;
    default:
      return std::numeric_limits<float>::lowest();
  }
}

ViewPlacement RowMajorAt(int64_t offset, const Shape& shape) {
  return {offset, RowMajorStrides(shape)};
}

}  // namespace

absl::StatusOr<double> Redistributor::Seconds(ProgramValueId id, const PartRule& tensor,
                                              const MeshLayout& from, const MeshLayout& to) {
  const DType dtype = builder_.value(id).type.dtype;
  ASSIGN_OR_RETURN(const Redistribution* found, finder_.Find(from, to, {dtype, tensor.extent}));
  return found->seconds;
}

absl::StatusOr<ProgramValueId> Redistributor::Redistribute(ProgramValueId id,
                                                           const PartRule& tensor,
                                                           const MeshLayout& from,
                                                           const MeshLayout& to,
                                                           absl::string_view stream) {
  const DType dtype = builder_.value(id).type.dtype;
  ASSIGN_OR_RETURN(const Redistribution* found, finder_.Use(from, to, {dtype, tensor.extent}));
  const Mesh& mesh = finder_.mesh();
  for (const RedistributionStep& step : found->steps) {
    ASSIGN_OR_RETURN(id, EmitStep({step, tensor, stream, LocalShape(step.to, tensor.extent, mesh),
                                   builder_.FindOrAddPart(tensor.With(step.to))},
                                  id));
  }
  return WithShapesOf(tensor.With(to), id);
}

// Layouts that hold the same elements may give a rank without any of them different shapes, such as
// [1, 0] and [0, 1]. An operator may need to know which: the statistics of 1 row without channels
// count this row.
absl::StatusOr<ProgramValueId> Redistributor::WithShapesOf(const PartRule& part,
                                                           ProgramValueId id) {
  const Mesh& mesh = finder_.mesh();
  const Box last = part.At(mesh, mesh.CoordinatesOf(mesh.size() - 1));
  if (!last.empty()) return id;  // no rank's part is
  const PartId wanted = builder_.FindOrAddPart(part);
  if (builder_.value(id).part == wanted) return id;
  ASSIGN_OR_RETURN(id, builder_.EnsurePadded(id));
  const ProgramValue& value = builder_.value(id);
  return builder_.AddView(absl::StrCat(value.path, ".reshaped"), value.type, id, {0, value.strides},
                          value.role, wanted);
}

absl::StatusOr<ProgramValueId> Redistributor::EmitStep(const Step& step, ProgramValueId id) {
  switch (step.step.kind) {
    case Kind::kAllGather:
      return AllGather(step, id);
    case Kind::kReduceScatter:
    case Kind::kAllReduce: {
      const AxisLayout& partial = step.step.from.axis(step.step.axes[0]);
      if (partial.reduction == AxisLayout::Reduction::kLogSumExp) return ReduceLogSumExp(step, id);
      return EmitReduction(step, ReductionOf(partial), id);
    }
    case Kind::kAllToAll:
      return AllToAll(step, id);
    case Kind::kSlice: {
      const ProgramValue& value = builder_.value(id);
      return builder_.Slice(absl::StrCat(value.path, ".slice"), {value.type.dtype, step.shape}, id,
                            step.part);
    }
    case Kind::kZeroElsewhere:
      return ZeroElsewhere(step, id);
  }
  TESSERA_CHECK(false) << step.step.ToString(finder_.mesh());
}

CollectiveRequest Redistributor::RequestOf(const Step& step, CollectiveOperation operation,
                                           int64_t elements, ProgramValueId id) const {
  CollectiveRequest request;
  request.operation = operation;
  request.elements = elements;
  request.dtype = builder_.value(id).type.dtype;
  for (const int axis : step.step.axes) {
    request.mesh_axes.push_back(finder_.mesh().axis(axis).name);
  }
  return request;
}

absl::StatusOr<ProgramValueId> Redistributor::AllGather(const Step& step, ProgramValueId id) {
  const ProgramValue& value = builder_.value(id);
  const PackedParts parts = PartsOf(step.shape, step.step.from, step);
  const Shape shape = parts.consecutive() ? step.shape : Shape{parts.elements()};
  const ProgramValueId gathered =
      builder_.AddTensor(absl::StrCat(value.path, ".all_gather"), {value.type.dtype, shape},
                         value.role, parts.consecutive() ? step.part : kNone);
  RETURN_IF_ERROR(builder_.EmitCollective(
      RequestOf(step, CollectiveOperation::kAllGather, parts.elements(), id), step.stream, id,
      gathered));
  if (parts.consecutive()) return gathered;
  return Unpack(step, gathered, parts);
}

absl::StatusOr<ProgramValueId> Redistributor::EmitAllReduce(const Step& step, Reduction reduction,
                                                            ProgramValueId id, PartId part) {
  const ProgramValue& value = builder_.value(id);
  const ProgramValueId reduced =
      builder_.AddTensor(absl::StrCat(value.path, ".all_reduce"), value.type, value.role, part);
  CollectiveRequest request = RequestOf(step, CollectiveOperation::kAllReduce,
                                        NumElements(builder_.value(id).type.shape), id);
  request.reduction = reduction;
  RETURN_IF_ERROR(builder_.EmitCollective(request, step.stream, id, reduced));
  return reduced;
}

absl::StatusOr<ProgramValueId> Redistributor::EmitReduction(const Step& step, Reduction reduction,
                                                            ProgramValueId id) {
  if (step.step.kind == Kind::kAllReduce) return EmitAllReduce(step, reduction, id, step.part);
  const ProgramValue& value = builder_.value(id);
  const TensorType type = {value.type.dtype, step.shape};
  const std::string path = absl::StrCat(value.path, ".reduce_scatter");
  const Role role = value.role;
  const PackedParts parts = PartsOf(value.type.shape, step.step.to, step);
  ASSIGN_OR_RETURN(const ProgramValueId packed, Pack(id, parts));
  const ProgramValueId reduced = builder_.AddTensor(path, type, role, step.part);
  CollectiveRequest request =
      RequestOf(step, CollectiveOperation::kReduceScatter, parts.elements(), id);
  request.reduction = reduction;
  RETURN_IF_ERROR(builder_.EmitCollective(request, step.stream, packed, reduced));
  return reduced;
}

// lse = max + log(sum of exp(x - max)), where the maximum and the sum are over the ranks. If all of
// these ranks hold empty parts, x is -infinity on each, and so is the result. The maximum is then a
// finite number, as -infinity - -infinity would be NaN.
absl::StatusOr<ProgramValueId> Redistributor::ReduceLogSumExp(const Step& step, ProgramValueId id) {
  const Shape shape = builder_.value(id).type.shape;
  const MeshLayout completed = WithBroadcast(step.step.from, step.step.axes);
  const PartId part = builder_.FindOrAddPart(step.tensor.With(completed));
  ASSIGN_OR_RETURN(ProgramValueId max, EmitAllReduce(step, Reduction::kMax, id, part));
  const DType dtype = builder_.value(id).type.dtype;
  ASSIGN_OR_RETURN(const ProgramValueId lowest,
                   builder_.EmitFill(absl::StrCat(builder_.value(max).path, ".lowest"), {dtype, {}},
                                     LowestOf(dtype)));
  ASSIGN_OR_RETURN(max, EmitElementwise("maximum", {max, lowest}, part));
  ASSIGN_OR_RETURN(ProgramValueId sum,
                   EmitElementwise("subtract", {id, max}, builder_.value(id).part));
  ASSIGN_OR_RETURN(sum, EmitElementwise("exp", {sum}, builder_.value(id).part));
  ASSIGN_OR_RETURN(sum, EmitReduction(step, Reduction::kSum, sum));
  ASSIGN_OR_RETURN(sum, EmitElementwise("log", {sum}, step.part));
  if (step.step.kind == Kind::kReduceScatter) {
    ASSIGN_OR_RETURN(max, builder_.Slice(absl::StrCat(builder_.value(max).path, ".slice"),
                                         builder_.value(sum).type, max, step.part));
  }
  return EmitElementwise("add", {max, sum}, step.part);
}

absl::StatusOr<ProgramValueId> Redistributor::AllToAll(const Step& step, ProgramValueId id) {
  const ProgramValue& value = builder_.value(id);
  const Role role = value.role;
  const DType dtype = value.type.dtype;
  const std::string path = absl::StrCat(value.path, ".all_to_all");
  const PackedParts sent = PartsOf(value.type.shape, step.step.to, step);
  const PackedParts received = PartsOf(step.shape, step.step.from, step);
  ASSIGN_OR_RETURN(const ProgramValueId packed, Pack(id, sent));
  const Shape shape = received.consecutive() ? step.shape : Shape{received.elements()};
  const ProgramValueId exchanged =
      builder_.AddTensor(path, {dtype, shape}, role, received.consecutive() ? step.part : kNone);
  RETURN_IF_ERROR(
      builder_.EmitCollective(RequestOf(step, CollectiveOperation::kAllToAll, sent.elements(), id),
                              step.stream, packed, exchanged));
  if (received.consecutive()) return exchanged;
  return Unpack(step, exchanged, received);
}

absl::StatusOr<ProgramValueId> Redistributor::ZeroElsewhere(const Step& step, ProgramValueId id) {
  const std::string path = absl::StrCat(builder_.value(id).path, ".zero_elsewhere");
  const DType dtype = builder_.value(id).type.dtype;
  const Role role = builder_.value(id).role;
  const bool scalar = step.shape.empty();
  const Shape shape = scalar ? Shape{1} : step.shape;
  const PartRule tensor = scalar ? PartRule::All({1}, step.tensor.layout.num_axes()) : step.tensor;
  const PartId part = builder_.FindOrAddPart(tensor.With(step.step.to));
  const int axis = step.step.axes[0];
  if (!step.step.from.axis(axis).split()) {
    // If the value has a single unit, coordinate 0 has all of it and the others have nothing.
    ASSIGN_OR_RETURN(id, builder_.EnsurePadded(id));
    if (scalar) {  // it may be partial over other axes
      id = builder_.AddView(path, {dtype, shape}, id, RowMajorAt(0, shape), role,
                            builder_.FindOrAddPart(tensor.With(step.step.from)));
    }
    const MeshLayout first =
        step.step.from.With(axis, AxisLayout::Split(0, std::max<int64_t>(tensor.extent[0], 1)));
    ASSIGN_OR_RETURN(
        id, builder_.Slice(path, {dtype, shape}, id, builder_.FindOrAddPart(tensor.With(first))));
  }
  Instruction instruction;
  instruction.path = path;
  instruction.inputs = {id};
  const ProgramValueId output = builder_.AddTensor(path, {dtype, shape}, role, part);
  instruction.cost.bytes = 2.0 * static_cast<double>(NumBytes({dtype, shape}));
  instruction.outputs = {output};
  const std::vector<int64_t> sizes(shape.begin(), shape.end());
  RETURN_IF_ERROR(
      builder_.EmitKernel({"zero_elsewhere", {{"shape", sizes}}}, std::move(instruction)));
  if (!scalar) return output;
  return builder_.AddView(path, {dtype, {}}, output, RowMajorAt(0, {}), role, step.part);
}

absl::StatusOr<ProgramValueId> Redistributor::EmitElementwise(absl::string_view op, Operands inputs,
                                                              PartId part) {
  const ProgramValue& value = builder_.value(inputs[0]);
  const TensorType type = value.type;
  Instruction instruction;
  instruction.path = absl::StrCat(value.path, ".", op);
  instruction.cost.flops = static_cast<double>(NumElements(type.shape));
  instruction.cost.bytes = static_cast<double>(NumBytes(type) * (inputs.size() + 1));
  const ProgramValueId output = builder_.AddTensor(instruction.path, type, value.role, part);
  instruction.inputs = std::move(inputs);
  instruction.outputs = {output};
  RETURN_IF_ERROR(builder_.EmitKernel({std::string(op.data(), op.size())}, std::move(instruction)));
  return output;
}

PackedParts Redistributor::PartsOf(const Shape& tensor, const MeshLayout& split,
                                   const Step& step) const {
  return PackedParts(tensor, split, step.step.axes, finder_.mesh());
}

absl::StatusOr<ProgramValueId> Redistributor::Pack(ProgramValueId id, const PackedParts& parts) {
  if (parts.consecutive()) return id;
  ASSIGN_OR_RETURN(id, builder_.EnsureUnsliced(id));
  ASSIGN_OR_RETURN(id, builder_.EnsurePadded(id));
  ASSIGN_OR_RETURN(id, builder_.EnsureRowMajor(id));
  const std::string path = absl::StrCat(builder_.value(id).path, ".packed");
  const DType dtype = builder_.value(id).type.dtype;
  const ProgramValueId packed =
      builder_.AddTensor(path, {dtype, {parts.elements()}}, builder_.value(id).role, kNone);
  builder_.SetGradientOf(packed, builder_.value(id).gradient_of);
  const auto set_to_zero = [&](const Shape& shape, const ViewPlacement& placement) -> absl::Status {
    const std::string padding = absl::StrCat(path, ".padding");
    ASSIGN_OR_RETURN(const ProgramValueId zeros, builder_.EmitZeros(padding, {dtype, shape}));
    return builder_.PutInto(packed, zeros, placement, padding);
  };
  if (parts.in_order()) {
    const Shape shape = builder_.value(id).type.shape;
    RETURN_IF_ERROR(
        builder_.PutInto(packed, id, RowMajorAt(0, shape), absl::StrCat(path, ".part")));
    const int64_t written = NumElements(shape);
    const Shape rest = {parts.elements() - written};
    RETURN_IF_ERROR(set_to_zero(rest, RowMajorAt(written, rest)));
    return packed;
  }
  RETURN_IF_ERROR(CopyParts(id, packed, parts, /*to_packed=*/true));
  for (const PackedParts::Padding& padding : parts.padding()) {
    RETURN_IF_ERROR(set_to_zero(padding.shape, padding.in_buffer));
  }
  return packed;
}

absl::StatusOr<ProgramValueId> Redistributor::Unpack(const Step& step, ProgramValueId id,
                                                     const PackedParts& parts) {
  const ProgramValue& value = builder_.value(id);
  const std::string path = absl::StrCat(value.path, ".unpacked");
  const TensorType type = {value.type.dtype, step.shape};
  const Role role = value.role;
  if (parts.in_order()) {  // without the padding at the end
    return builder_.AddView(path, type, id, RowMajorAt(0, step.shape), role, step.part);
  }
  const ProgramValueId full = builder_.AddTensor(path, type, role, step.part);
  RETURN_IF_ERROR(CopyParts(full, id, parts, /*to_packed=*/false));
  return full;
}

absl::Status Redistributor::CopyParts(ProgramValueId full, ProgramValueId packed,
                                      const PackedParts& parts, bool to_packed) {
  const DType dtype = builder_.value(full).type.dtype;
  const std::string path = absl::StrCat(builder_.value(to_packed ? packed : full).path, ".parts");
  for (const PackedParts::Copy& copy : parts.copies()) {
    const ProgramValueId a =
        builder_.AddView(path, {dtype, copy.shape}, full, copy.in_tensor, Role::kActivation, kNone);
    const ProgramValueId b = builder_.AddView(path, {dtype, copy.shape}, packed, copy.in_buffer,
                                              Role::kActivation, kNone);
    RETURN_IF_ERROR(to_packed ? builder_.EmitCopy(a, b) : builder_.EmitCopy(b, a));
  }
  return absl::OkStatus();
}

}  // namespace tessera
