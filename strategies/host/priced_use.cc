#include "strategies/host/priced_use.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/plan/layouts/axis_use.h"
#include "core/plan/layouts/expected_layouts.h"
#include "core/plan/layouts/graph_layouts.h"
#include "core/plan/rewrite_and_lay_out.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Returns the layout of operand `i`, an input or an output, of a use along all axes.
MeshLayout LayoutOf(const std::vector<AxisUse>& uses, bool input, size_t i) {
  std::vector<AxisLayout> axes;
  for (const AxisUse& use : uses) {
    axes.push_back(input ? use.signature.inputs[i] : use.signature.outputs[i]);
  }
  return MeshLayout(axes);
}

// Parses a use along all axes. Shrinks the types of the operands to those of a rank, axis by axis,
// and marks signatures that are in parts.
absl::StatusOr<std::vector<AxisUse>> UsesOf(const Op& op, const std::string& text, const Mesh& mesh,
                                            LocalOperands& local) {
  AxisUses parsed(mesh.num_axes());  // "" is B along all axes
  if (!text.empty()) {
    ASSIGN_OR_RETURN(parsed, ParseAxisUses(text, mesh));
  }
  std::vector<AxisUse> uses(mesh.num_axes(), AxisUse::Broadcast(op));
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (!parsed[axis].has_value() || parsed[axis]->kind != AxisUse::Kind::kSigned) continue;
    Signature& signature = parsed[axis]->signature;
    if (signature.inputs.size() != op.inputs.size() ||
        signature.outputs.size() != op.outputs.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("operator ", op.path, " has ", op.inputs.size(), " inputs and ",
                       op.outputs.size(), " outputs, and '", text, "' is of others"));
    }
    const auto shrink = [&](absl::Span<const AxisLayout> layouts,
                            std::vector<TensorType>& types) -> absl::Status {
      for (size_t i = 0; i < layouts.size(); ++i) {
        if (!layouts[i].split() || layouts[i].dim < static_cast<int>(types[i].shape.size()))
          continue;
        return absl::InvalidArgumentError(absl::StrCat("operator ", op.path, ": '", text,
                                                       "' splits dimension ", layouts[i].dim,
                                                       " of ", TypeToString(types[i])));
      }
      ShrinkToParts(layouts, mesh.axis(axis).size, absl::MakeSpan(types));
      return absl::OkStatus();
    };
    const std::vector<Signature> stated =
        op.kind->StatedSignatures({local.inputs, local.outputs, op.attributes});
    signature.in_parts = absl::c_any_of(stated, [&](const Signature& named) {
      return named.in_parts && IsMultipleOf(signature, named);
    });
    RETURN_IF_ERROR(shrink(signature.inputs, local.inputs));
    RETURN_IF_ERROR(shrink(signature.outputs, local.outputs));
    uses[axis] = AxisUse::By(std::move(signature));
  }
  return uses;
}

// Returns the parts of an op, laid out as it is used. The result owns the op's operands.
absl::StatusOr<RewrittenGraph> PartsOnMesh(const Graph& graph, const Op& op,
                                           std::vector<AxisUse> uses, const Mesh& mesh) {
  Graph alone("parts");
  LayoutDecisions decisions;
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const std::string path = absl::StrCat("input_", i);
    inputs.push_back(alone.Input(path, graph.value(op.inputs[i]).type));
    decisions.stored[path].layout = LayoutOf(uses, /*input=*/true, i);
  }
  alone.Record(*op.kind, inputs, op.attributes);
  RETURN_IF_ERROR(alone.status());
  GraphLayouts layouts;
  layouts.ops.push_back(std::move(uses));
  return RewriteAndLayOut(alone, layouts, PlanPart(), mesh, decisions);
}

// Returns the types of a rank's shards of operands.
std::vector<TensorType> LocalTypes(const Graph& graph, absl::Span<const ValueId> values,
                                   const std::vector<AxisUse>& uses, bool input, const Mesh& mesh) {
  std::vector<TensorType> types = graph.TypesOf(values);
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const Signature& signature = uses[axis].signature;
    ShrinkToParts(input ? signature.inputs : signature.outputs, mesh.axis(axis).size,
                  absl::MakeSpan(types));
  }
  return types;
}

}  // namespace

absl::StatusOr<PricedUse> PricedUse::Of(const Graph& graph, const Op& op,
                                        const std::string& signature, const Mesh& mesh) {
  PricedUse priced;
  Kernel whole{op, {graph.TypesOf(op.inputs), graph.TypesOf(op.outputs)}};
  ASSIGN_OR_RETURN(std::vector<AxisUse> uses, UsesOf(op, signature, mesh, whole.local));
  const bool in_parts =
      absl::c_any_of(uses, [](const AxisUse& use) { return use.signature.in_parts; });
  if (!in_parts) {
    priced.kernels.push_back(std::move(whole));
    return priced;
  }
  ASSIGN_OR_RETURN(const RewrittenGraph parts, PartsOnMesh(graph, op, std::move(uses), mesh));
  for (const OpId id : parts.graph.ops().ids()) {
    const Op& part = parts.graph.op(id);
    const std::vector<AxisUse>& part_uses = parts.layouts.ops[id];
    priced.kernels.push_back(
        {part,
         {LocalTypes(parts.graph, part.inputs, part_uses, /*input=*/true, mesh),
          LocalTypes(parts.graph, part.outputs, part_uses, /*input=*/false, mesh)}});
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      const Value& value = parts.graph.value(part.inputs[i]);
      if (value.producer == kNone) continue;
      const size_t output = static_cast<size_t>(value.output_index);
      priced.completions.push_back(
          {LayoutOf(parts.layouts.ops[value.producer], /*input=*/false, output),
           LayoutOf(part_uses, /*input=*/true, i), value.type});
    }
  }
  return priced;
}

}  // namespace tessera
