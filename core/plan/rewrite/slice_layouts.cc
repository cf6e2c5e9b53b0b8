#include "core/plan/rewrite/slice_layouts.h"

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/layout/signature_fit.h"
#include "core/plan/graph/op_signatures.h"
#include "core/plan/layouts/expected_layouts.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Decides for every op whether it runs once or slice by slice, along the axis of one parameter.
class SlicePlanner {
 public:
  SlicePlanner(const Graph& graph, const SliceDecisions& decisions)
      : graph_(graph),
        decisions_(decisions),
        split_(result_.split),
        stays_(graph.values().size(), false),
        from_state_(graph.values().size(), false),
        readers_(graph.values().size(), 0) {
    for (const SlicedParameter& parameter : decisions.parameters) AddAxis(parameter);
    split_.values.resize(graph.values().size());
    split_.axis.assign(graph.values().size(), kNone);
    split_.gathered.assign(graph.values().size(), false);
    result_.ops.resize(graph.ops().size());
  }

  absl::StatusOr<SliceLayouts> Plan() && {
    for (const State& state : graph_.states()) {
      if (state.input == kNone) continue;
      from_state_[state.input] = true;
      const int axis = decisions_.AxisOf(state.path);
      if (axis != kNone) SetSplit(state.input, LayoutOf(axis), axis);
    }
    for (const OpId id : graph_.ops().ids()) {
      RETURN_IF_ERROR(Assign(id));
    }
    CountReaders();
    for (const State& state : graph_.states()) ComputeInSlices(state);
    for (const GraphOutput& output : graph_.outputs()) RequireFull(output.value);
    return std::move(result_);
  }

 private:
  void AddAxis(const SlicedParameter& parameter) {
    TimeAxis& axis = split_.axes.emplace_back();
    for (int64_t k = 0; k < parameter.count; ++k) {
      axis.suffixes.push_back(absl::StrCat("[", parameter.begin(k), ":", parameter.end(k), "]"));
      axis.sum_suffixes.push_back(absl::StrCat("[0:", parameter.end(k), "]"));
    }
  }

  AxisLayout LayoutOf(int axis) const {
    return AxisLayout::Split(decisions_.parameters[axis].dimension);
  }
  SplitAxis PartsOf(int axis) const { return {split_.axes[axis].parts(), /*even=*/false}; }

  // Sets the layout of a value and marks it as split: its readers read it slice by slice.
  void SetSplit(ValueId value, const AxisLayout& layout, int axis) {
    split_.values[value] = layout;
    split_.axis[value] = axis;
    stays_[value] = true;
  }
  // Has a split value gathered, for a reader that needs all of it.
  void RequireFull(ValueId value) {
    if (stays_[value]) split_.gathered[value] = true;
  }

  // --- Ops ---------------------------------------------------------------------------------------

  // Decides how an op runs. An op that reads a value that stays split runs slice by slice, as does
  // the gradient of such an op, if a signature allows it.
  absl::Status Assign(OpId id) {
    const Op& op = graph_.op(id);
    const bool from_state =
        absl::c_all_of(op.inputs, [&](ValueId input) { return from_state_[input]; });
    for (ValueId output : op.outputs) from_state_[output] = from_state;
    int axis = kNone;
    ValueId sliced = kNone;  // an input that is sliced
    for (ValueId input : op.inputs) {
      if (!stays_[input] || split_.axis[input] == axis) continue;
      if (axis != kNone) return TwoParameters(op, sliced, input);
      axis = split_.axis[input];
      sliced = input;
    }
    const OpId forward = op.gradient_of;
    const int forward_axis = forward == kNone ? kNone : result_.ops[forward].axis;
    if (axis == kNone) axis = forward_axis;
    if (axis == kNone) return absl::OkStatus();

    const OpSignatures use(graph_, op);
    std::optional<Signature> signature;
    if (forward_axis == axis) signature = DualSignature(op, forward, use.fitted(), axis);
    if (!signature.has_value() && sliced != kNone) {
      ASSIGN_OR_RETURN(signature, ByArrival(op, use.fitted(), sliced, axis));
    }
    if (signature.has_value() && !IsBroadcast(*signature)) {
      SliceOp(id, *std::move(signature), axis, from_state);
    }
    return absl::OkStatus();
  }

  static bool IsBroadcast(const Signature& signature) {
    const auto broadcast = [](const AxisLayout& layout) { return layout.broadcast(); };
    return absl::c_all_of(signature.inputs, broadcast) &&
           absl::c_all_of(signature.outputs, broadcast);
  }

  // Lets an op run slice by slice along `axis`. Outputs that do not stay split are gathered.
  void SliceOp(OpId id, Signature signature, int axis, bool from_state) {
    const Op& op = graph_.op(id);
    bool all_stay = true;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const ValueId output = op.outputs[i];
      SetSplit(output, signature.outputs[i], axis);
      stays_[output] = StaysSplit(output, from_state || op.phase == Phase::kUpdate);
      split_.gathered[output] = !stays_[output];
      all_stay = all_stay && stays_[output];
    }
    const bool late = from_state && all_stay && op.phase != Phase::kUpdate;
    result_.ops[id] = {axis, late, std::move(signature)};
  }

  // Returns whether readers of a sliced op's output read it slice by slice: it is beside states, or
  // the gradient of a value that stays split along the same axis.
  bool StaysSplit(ValueId value, bool beside_states) const {
    if (!split_.values[value].split()) return false;
    const Value& v = graph_.value(value);
    const auto stays_along_axis = [&](ValueId target) {
      return target != kNone && stays_[target] && split_.axis[target] == split_.axis[value];
    };
    return beside_states || stays_along_axis(v.gradient_of) ||
           stays_along_axis(v.complete_gradient_of);
  }

  std::vector<Arriving> ArrivingAt(const Op& op) const {
    std::vector<Arriving> arriving;
    for (ValueId input : op.inputs) {
      arriving.push_back(stays_[input] ? split_.values[input] : AxisLayout::Broadcast());
    }
    return arriving;
  }

  // Returns the dual of the signature of `forward`. Inputs that stay split are read slice by slice.
  std::optional<Signature> DualSignature(const Op& op, OpId forward, const FittedUse& use,
                                         int axis) const {
    // A value that is available in full is never partial.
    std::vector<Signature> possible;
    for (const Signature& signature : use.signatures) {
      if (absl::c_none_of(signature.inputs, [](const AxisLayout& l) { return l.partial(); })) {
        possible.push_back(signature);
      }
    }
    const FittedUse without_partial = {possible, use.inputs, use.outputs};
    ExpectedLayouts expected =
        ExpectDual(graph_, op, graph_.op(forward), result_.ops[forward].signature);
    const std::vector<Arriving> arriving = ArrivingAt(op);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (stays_[op.inputs[i]]) expected.inputs[i] = Expected::Exactly(*arriving[i]);
    }
    const auto find = [&]() -> std::optional<Signature> {
      if (!ExpectsSplit(expected.inputs) && !ExpectsSplit(expected.outputs)) return std::nullopt;
      return BestExpected(without_partial, expected, arriving, PartsOf(axis));
    };
    if (std::optional<Signature> best = find()) return best;
    expected.outputs.assign(op.outputs.size(), Expected::Anything());
    return find();
  }

  static bool ExpectsSplit(absl::Span<const Expected> operands) {
    return absl::c_any_of(operands, [](const Expected& operand) {
      return operand.kind == Expected::Kind::kExactly && operand.layout.split();
    });
  }

  // Returns the signature that accepts the arriving layouts. If there is none, gradients are
  // assembled. Nullopt: the op runs once, on full values.
  absl::StatusOr<std::optional<Signature>> ByArrival(const Op& op, const FittedUse& use,
                                                     ValueId sliced, int axis) {
    const std::vector<Arriving> arriving = ArrivingAt(op);
    const std::optional<SignatureFit> fit = FitOrGather(use, arriving, op.inputs, PartsOf(axis));
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!stays_[op.inputs[i]] || (fit.has_value() && !fit->gathered[i])) continue;
      if (from_state_[op.inputs[i]]) return NoSignature(op, use, sliced, axis);
      RequireFull(op.inputs[i]);
    }
    if (!fit.has_value()) return std::optional<Signature>();
    return std::optional<Signature>(fit->signature);
  }

  // --- States ----------------------------------------------------------------------------------

  void CountReaders() {
    for (const Op& op : graph_.ops()) {
      for (ValueId input : op.inputs) ++readers_[input];
    }
    for (const GraphOutput& output : graph_.outputs()) ++readers_[output.value];
    for (const State& state : graph_.states()) ++readers_[state.updated];
  }

  // If a value is written to a sliced state and used nowhere else, it is computed in slices if its
  // op can do that.
  void ComputeInSlices(const State& state) {
    const int axis = decisions_.AxisOf(state.path);
    if (axis == kNone) return RequireFull(state.updated);
    const OpId producer = graph_.value(state.updated).producer;
    if (producer == kNone || result_.ops[producer].axis != kNone) return;
    const Op& op = graph_.op(producer);
    if (op.outputs.size() != 1 || readers_[state.updated] != 1) return;
    const OpSignatures use(graph_, op);
    std::optional<Signature> made =
        FindSignatureProducing(use.fitted(), {Arriving(LayoutOf(axis))}, PartsOf(axis));
    if (!made.has_value()) return;
    SetSplit(state.updated, made->outputs[0], axis);
    result_.ops[producer] = {axis, /*late=*/false, *std::move(made)};
  }

  // --- Errors ------------------------------------------------------------------------------------

  absl::Status TwoParameters(const Op& op, ValueId a, ValueId b) const {
    return absl::InvalidArgumentError(
        absl::StrCat("the Plan's slices: operator '", op.path, "' (", op.kind->name(), ") reads '",
                     graph_.value(a).path, "' and '", graph_.value(b).path,
                     "', which are slices of two parameters; slice one of them only"));
  }

  absl::Status NoSignature(const Op& op, const FittedUse& use, ValueId sliced, int axis) const {
    std::string has = "B";
    for (const Signature& signature : use.signatures) {
      absl::StrAppend(&has, "; ", signature.ToString());
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the Plan's slice '", decisions_.parameters[axis].path, "': operator '", op.path, "' (",
        op.kind->name(), ") has no signature that takes '", graph_.value(sliced).path, "' as ",
        split_.values[sliced].ToString(), "; it has ", has));
  }

  const Graph& graph_;
  const SliceDecisions& decisions_;
  SliceLayouts result_;
  TimeSplit& split_;
  Table<ValueId, bool> stays_;       // it is split, and read slice by slice
  Table<ValueId, bool> from_state_;  // computed from states and constants alone
  Table<ValueId, int> readers_;      // how many ops read it
};

}  // namespace

absl::StatusOr<SliceLayouts> LayOutSlices(const Graph& graph, const SliceDecisions& decisions) {
  return SlicePlanner(graph, decisions).Plan();
}

}  // namespace tessera
