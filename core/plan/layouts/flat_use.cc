#include "core/plan/layouts/flat_use.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "core/layout/signature_fit.h"
#include "core/plan/graph/parameter_cast.h"
#include "core/plan/layouts/expected_layouts.h"

namespace tessera {
namespace {

bool IsFlat(const std::optional<AxisStore>& store) { return store.has_value() && store->flat; }

}  // namespace

bool MayBeFlat(const Graph& graph, const Op& op,
               const Table<ValueId, std::optional<AxisStore>>& stored,
               const Table<ValueId, std::optional<AxisStore>>& updated) {
  if (IsParameterCast(graph, op)) return IsFlat(stored[op.inputs[0]]);
  const bool writes = absl::c_any_of(op.outputs, [&](ValueId output) {
    return graph.value(output).gradient_of == kNone && IsFlat(updated[output]);
  });
  return writes || (op.phase == Phase::kUpdate && absl::c_any_of(op.inputs, [&](ValueId input) {
                      return IsFlat(updated[input]);
                    }));
}

std::optional<AxisUse> UseOnFlatRange(const Op& op, const LocalTypes& types,
                                      const Table<ValueId, std::optional<AxisStore>>& updated,
                                      absl::Span<const Signature> signatures) {
  // A member without dimensions is [1] in its group, of which a rank holds all or nothing. A sum of
  // [1] has another shape than its input, a sum of [] has the same.
  LocalTypes in_group = types;
  std::vector<TensorType> inputs;  // empty if no member is a scalar
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!IsFlat(updated[op.inputs[i]]) || !types.inputs[i].shape.empty()) continue;
    if (inputs.empty()) inputs.assign(types.inputs.begin(), types.inputs.end());
    inputs[i].shape = {1};
  }
  std::vector<Signature> of_scalars;
  absl::StatusOr<std::vector<TensorType>> outputs;
  if (!inputs.empty()) {
    outputs = op.kind->InferTypes(inputs, op.attributes);
    if (!outputs.ok()) return std::nullopt;
    in_group = {inputs, *outputs};
    of_scalars = op.kind->Signatures({in_group.inputs, in_group.outputs, op.attributes});
    signatures = of_scalars;
  }

  const FittedUse fitted = {signatures, in_group.inputs, in_group.outputs};
  std::optional<AxisLayout> output;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!IsFlat(updated[op.inputs[i]])) continue;
    const std::optional<AxisLayout> made = OutputOnRange(fitted, i);
    if (!made.has_value() || (output.has_value() && *made != *output)) return std::nullopt;
    output = made;
  }
  if (!output.has_value()) output = OutputOnRange(fitted, 0);
  if (!output.has_value()) return std::nullopt;
  AxisUse use = AxisUse::Flat(op);
  for (AxisLayout& layout : use.signature.outputs) layout = *output;
  return use;
}

}  // namespace tessera
