#include "core/plan/rewrite/precision.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/ops/operator_list.h"
#include "core/plan/graph/copy_graph.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

std::string Name(DType dtype) { return absl::StrCat(DTypeName(dtype)); }

// Writes the Graph in lower precision. Ids of the source Graph are called `old`.
class PrecisionWriter {
 public:
  PrecisionWriter(const Graph& graph, const Precision& precision)
      : graph_(graph),
        precision_(precision),
        out_(graph.name()),
        forms_(graph.values().size()),
        new_op_(graph.ops().size(), kNone) {}

  absl::StatusOr<Graph> Write() && {
    for (const GraphInput& input : graph_.inputs()) {
      AddForm(input.value, graph_.value(input.value).type.dtype,
              out_.AppendInput(graph_.value(input.value), input.batch_dim, input.origin));
      forms_[input.value].kind = Kind::kSource;
    }
    AppendStates();
    CopyBlocks(graph_, out_);
    for (const OpId old : graph_.ops().ids()) {
      RETURN_IF_ERROR(WriteOp(old));
    }
    WriteStates();
    WriteOutputs();
    LinkGradients();
    out_.ResetOrigins();
    RETURN_IF_ERROR(out_.status());
    return std::move(out_);
  }

 private:
  enum class Kind : uint8_t {
    kFull,    // in the recorded dtype
    kLow,     // in precision_.parameters, as are results of ops that read it
    kSource,  // in either dtype: a parameter, an input, a constant
    kData,    // in the recorded dtype: a cast of integers, and what is computed from it alone
  };
  // The new values ("forms") of an old one, each in another dtype. The first is the one that the op
  // computes; the others are casts.
  struct Forms {
    Kind kind = Kind::kFull;
    std::vector<std::pair<DType, ValueId>> ids;
  };

  bool IsF32(ValueId old) const { return graph_.value(old).type.dtype == DType::kF32; }
  // Returns whether the value is a parameter's gradient.
  bool IsReduced(ValueId old) const {
    return IsF32(old) && graph_.value(old).complete_gradient_of != kNone;
  }

  void AddForm(ValueId old, DType dtype, ValueId id) { forms_[old].ids.emplace_back(dtype, id); }
  // Returns the form in `dtype`; kNone if it is not written yet.
  ValueId FindForm(ValueId old, DType dtype) const {
    for (const auto& [known, id] : forms_[old].ids) {
      if (known == dtype) return id;
    }
    return kNone;
  }

  void AppendStates() {
    for (const State& state : graph_.states()) {
      if (state.input == kNone) continue;
      const bool is_f32_cache = state.role == Role::kCache && IsF32(state.input);
      forms_[state.input].kind = is_f32_cache                            ? Kind::kLow
                                 : state.role == Role::kRunningStatistic ? Kind::kFull
                                                                         : Kind::kSource;
      State copy = state;
      copy.type.dtype = DTypeOfState(state);
      AddForm(state.input, copy.type.dtype, out_.AppendState(copy));
    }
  }

  // --- Values ----------------------------------------------------------------------------------

  // Returns the value in this dtype, for an op of this phase. The first call for a dtype appends a
  // cast to it, or, for a constant, an op that computes the constant in it.
  ValueId FindOrAppendForm(ValueId old, DType dtype, Phase phase) {
    if (const ValueId known = FindForm(old, dtype); known != kNone) return known;
    const Value& value = graph_.value(old);
    if (value.producer != kNone && IsConstant(graph_.op(value.producer))) {
      return AppendConstant(value.producer, dtype);
    }
    const ValueId from = forms_[old].ids.front().second;
    return AppendCast(old, from, dtype, absl::StrCat(value.path, ".", Name(dtype)), phase);
  }

  // Returns the value in `dtype` for the update or for an output. For a parameter's gradient that
  // is reduced in 16 bits, this is a cast of the reduced value, which the first call appends.
  ValueId FindOrAppendResult(ValueId old, DType dtype, Phase phase) {
    if (!IsReduced(old) || !IsHalf(precision_.reduction))
      return FindOrAppendForm(old, dtype, phase);
    const ValueId reduced = FindForm(old, precision_.reduction);
    if (dtype == precision_.reduction || reduced == kNone)
      return FindOrAppendForm(old, dtype, phase);
    ValueId& widened = widened_.try_emplace(old, kNone).first->second;
    if (widened == kNone) {
      const std::string& path = graph_.value(old).path;
      widened = AppendCast(old, reduced, dtype, absl::StrCat(path, ".", Name(dtype)), phase);
      // The sum is cast after its reduction, not the terms before it.
      out_.SetAttribute(out_.value(widened).producer, "terms", false);
    }
    return widened;
  }

  static bool IsConstant(const Op& op) { return op.inputs.empty(); }

  // Returns `path`, with the suffix _1, _2, ... if it is taken.
  std::string FreePath(const std::string& path) const {
    std::string free = path;
    for (int i = 1; !out_.PathIsFree(free); ++i) free = absl::StrCat(path, "_", i);
    return free;
  }

  // Appends the op of a constant in the dtype in which it is read, and adds its output to the
  // forms. A second copy gets another path.
  ValueId AppendConstant(OpId old, DType dtype) {
    Op op = graph_.op(old);
    const ValueId old_output = op.outputs[0];
    Value output = graph_.value(old_output);
    output.type.dtype = dtype;
    if (!out_.PathIsFree(output.path)) {
      output.path = FreePath(absl::StrCat(output.path, ".", Name(dtype)));
      op.path = output.path;
    }
    op.attributes.Set("dtype", dtype);
    const OpId id = AppendOp(old, std::move(op), {output});
    AddForm(old_output, dtype, out_.op(id).outputs[0]);
    return out_.op(id).outputs[0];
  }

  // Appends a cast of `from`, one of the value's forms, and adds its output to the forms.
  ValueId AppendCast(ValueId old, ValueId from, DType dtype, const std::string& path, Phase phase) {
    const Value& value = graph_.value(old);
    Op op;
    op.kind = FindOperator("cast");
    op.path = FreePath(path);
    op.origin = op.path;
    op.attributes = {{"dtype", dtype}};
    op.inputs = {from};
    op.phase = phase;
    Value output = value;
    output.path = op.path;
    output.type.dtype = dtype;
    if (value.producer == kNone) output.role = Role::kActivation;
    const OpId id = out_.AppendOp(std::move(op), {output});
    AddForm(old, dtype, out_.op(id).outputs[0]);
    return out_.op(id).outputs[0];
  }

  // Appends an op that repeats `old`, after the copies of the ops that `old` runs after.
  OpId AppendOp(OpId old, Op op, absl::Span<const Value> outputs) {
    std::vector<OpId> after;
    for (OpId earlier : op.after) {
      if (new_op_[earlier] != kNone) after.push_back(new_op_[earlier]);
    }
    op.after = std::move(after);
    const OpId id = out_.AppendOp(std::move(op), outputs);
    new_op_[old] = id;
    return id;
  }

  // --- Ops -------------------------------------------------------------------------------------

  // Returns whether the Plan says that an op, or that of which it is the gradient, computes in f32.
  bool ComputesInF32(const Op& op) const {
    if (!precision_.in_f32.has_value()) return false;
    if (precision_.in_f32->Matches(op.path)) return true;
    return op.gradient_of != kNone && ComputesInF32(graph_.op(op.gradient_of));
  }

  // Returns the kind of the values that an op computes, unless the Plan says that they are f32.
  Kind KindOf(const Op& op) const {
    if (op.kind == FindOperator("cast") && !IsFloating(graph_.value(op.inputs[0]).type.dtype)) {
      return Kind::kData;
    }
    bool reads_source = false, reads_full = false, reads_data = false;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (graph_.value(op.inputs[i]).role == Role::kOptimizerState) return Kind::kFull;
      if (!IsF32(op.inputs[i]) || op.kind->IsStatistic(static_cast<int>(i))) continue;
      const Kind kind = forms_[op.inputs[i]].kind;
      if (kind == Kind::kLow) return Kind::kLow;
      reads_full = reads_full || kind == Kind::kFull;
      reads_data = reads_data || kind == Kind::kData;
      const OpId producer = graph_.value(op.inputs[i]).producer;
      const bool constant = producer != kNone && IsConstant(graph_.op(producer));
      reads_source = reads_source || (kind == Kind::kSource && !constant);
    }
    if (reads_full || !(reads_source || reads_data)) return Kind::kFull;
    return reads_source ? Kind::kLow : Kind::kData;
  }

  // Writes an op in the dtype that follows from what it reads; constants are written there.
  absl::Status WriteOp(OpId old) {
    const Op& op = graph_.op(old);
    if (op.phase == Phase::kUpdate) return WriteUpdate(old);
    // The gradient of an unused parameter is written at once, because it may be reduced together
    // with others.
    if (IsConstant(op) && op.outputs.size() == 1 && IsF32(op.outputs[0]) &&
        !IsReduced(op.outputs[0])) {
      forms_[op.outputs[0]].kind = Kind::kSource;
      return absl::OkStatus();
    }
    const Kind kind = IsHalf(precision_.parameters) ? KindOf(op) : Kind::kFull;
    const bool low = kind == Kind::kLow && !ComputesInF32(op) && !AssemblesInF32(op);
    return WriteAs(old, low ? precision_.parameters : DType::kF32, kind);
  }

  // Returns whether an op assembles a parameter's gradient that is reduced in f32. Its parts are
  // then cast, not the whole, so that the kernels that compute them can store them in f32.
  bool AssemblesInF32(const Op& op) const {
    return op.kind->name() == "concat" && IsReduced(op.outputs[0]) && !IsHalf(precision_.reduction);
  }

  // Writes an op on operands of this dtype, except its statistics.
  absl::Status WriteAs(OpId old, DType dtype, Kind kind) {
    Op op = graph_.op(old);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const bool statistic = op.kind->IsStatistic(static_cast<int>(i));
      const DType recorded = graph_.value(op.inputs[i]).type.dtype;
      const DType wanted = recorded == DType::kF32 && !statistic ? dtype : recorded;
      op.inputs[i] = FindOrAppendForm(op.inputs[i], wanted, op.phase);
    }
    if (op.attributes.Has("dtype") && op.attributes.GetDType("dtype") == DType::kF32) {
      op.attributes.Set("dtype", dtype);
    }
    return AppendWithCasts(old, std::move(op), kind);
  }

  // Appends `op`, a copy of `old` whose inputs are set, with the types of outputs that follow from
  // them. A parameter's gradient is then cast to the dtype in which it is reduced.
  absl::Status AppendWithCasts(OpId old, Op op, Kind kind) {
    ASSIGN_OR_RETURN(const std::vector<TensorType> types,
                     op.kind->InferTypes(out_.TypesOf(op.inputs), op.attributes));
    const std::vector<ValueId> old_outputs = op.outputs;
    const Phase phase = op.phase;
    std::vector<Value> outputs;
    for (size_t i = 0; i < old_outputs.size(); ++i) {
      outputs.push_back(graph_.value(old_outputs[i]));
      outputs[i].type = types[i];
      if (IsReduced(old_outputs[i]) && types[i].dtype != precision_.reduction) {
        outputs[i].path = FreePath(absl::StrCat(outputs[i].path, ".", Name(types[i].dtype)));
      }
    }
    const OpId id = AppendOp(old, std::move(op), outputs);
    for (size_t i = 0; i < old_outputs.size(); ++i) {
      AddForm(old_outputs[i], types[i].dtype, out_.op(id).outputs[i]);
      if (IsF32(old_outputs[i])) {
        // A statistic is f32 by its operator's rule, as are values computed from it.
        const bool statistic =
            kind == Kind::kLow && types[i].dtype == DType::kF32 && !ComputesInF32(graph_.op(old));
        forms_[old_outputs[i]].kind = statistic ? Kind::kFull : kind;
      }
      if (IsReduced(old_outputs[i]) && types[i].dtype != precision_.reduction) {
        const std::string& path = graph_.value(old_outputs[i]).path;
        const ValueId reduced =
            AppendCast(old_outputs[i], out_.op(id).outputs[i], precision_.reduction, path, phase);
        if (IsHalf(precision_.reduction)) {
          out_.SetAttribute(out_.value(reduced).producer, "terms", true);
        }
      }
    }
    return absl::OkStatus();
  }

  // Writes an op of the update, which reads its recorded operands. It reads a gradient in the dtype
  // of the reduction if it accepts that.
  absl::Status WriteUpdate(OpId old) {
    Op op = graph_.op(old);
    Op on_reduced = op;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ValueId input = graph_.op(old).inputs[i];
      const bool reduced = IsReduced(input) && IsHalf(precision_.reduction);
      if (!reduced) {
        op.inputs[i] = on_reduced.inputs[i] =
            FindOrAppendForm(input, graph_.value(input).type.dtype, Phase::kUpdate);
      } else {
        on_reduced.inputs[i] = FindOrAppendForm(input, precision_.reduction, Phase::kUpdate);
      }
    }
    const auto types =
        on_reduced.kind->InferTypes(out_.TypesOf(on_reduced.inputs), on_reduced.attributes);
    if (types.ok() && *types == graph_.TypesOf(op.outputs)) {
      return AppendWithCasts(old, std::move(on_reduced), Kind::kFull);
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ValueId input = graph_.op(old).inputs[i];
      op.inputs[i] = FindOrAppendResult(input, graph_.value(input).type.dtype, Phase::kUpdate);
    }
    return AppendWithCasts(old, std::move(op), Kind::kFull);
  }

  // --- Results ---------------------------------------------------------------------------------

  Phase PhaseOf(ValueId old) const {
    const OpId producer = graph_.value(old).producer;
    return producer == kNone ? Phase::kForward : graph_.op(producer).phase;
  }

  // Returns the dtype of a state: caches have that of the values that they keep.
  DType DTypeOfState(const State& state) const {
    const bool is_f32_cache = state.role == Role::kCache && state.type.dtype == DType::kF32;
    return is_f32_cache ? precision_.parameters : state.type.dtype;
  }

  // Sets the updated values of the states, after all ops have been written, and declares states
  // that the Graph does not read.
  void WriteStates() {
    for (const State& state : graph_.states()) {
      if (state.input != kNone && state.updated == state.input) continue;  // it is unchanged
      State copy = state;
      copy.type.dtype = DTypeOfState(state);
      const ValueId updated =
          FindOrAppendForm(state.updated, copy.type.dtype, PhaseOf(state.updated));
      if (state.input == kNone) {
        out_.WriteState(copy, out_.tensor(updated));
      } else {
        out_.SetState(state.path, out_.tensor(updated));
      }
    }
  }

  // Sets the outputs, after all ops have been written.
  void WriteOutputs() {
    for (const GraphOutput& output : graph_.outputs()) {
      const bool is_lowered = IsF32(output.value) && forms_[output.value].kind == Kind::kLow;
      const DType dtype = is_lowered ? precision_.outputs : graph_.value(output.value).type.dtype;
      out_.SetOutput(output.name,
                     out_.tensor(FindOrAppendResult(output.value, dtype, PhaseOf(output.value))));
    }
  }

  // A gradient is linked to the form of its value that has the same dtype. A complete gradient is
  // linked to the target itself.
  void LinkGradients() {
    for (const ValueId old : graph_.values().ids()) {
      const Value& value = graph_.value(old);
      for (const auto& [dtype, id] : forms_[old].ids) {
        if (value.gradient_of != kNone) {
          const Forms& of_forms = forms_[value.gradient_of];
          const bool reduced = IsReduced(old) && dtype == precision_.reduction;
          const bool is_cast = reduced && forms_[old].ids.front().second != id;
          ValueId target = is_cast ? ValueId() : FindForm(value.gradient_of, dtype);
          if (target == kNone && !of_forms.ids.empty()) target = of_forms.ids.front().second;
          out_.SetGradientOfValue(id, target);
        }
        if (value.complete_gradient_of == kNone) continue;
        if (IsF32(old) && dtype != precision_.reduction) continue;
        const Forms& of_forms = forms_[value.complete_gradient_of];
        if (!of_forms.ids.empty()) out_.SetCompleteGradientOf(id, of_forms.ids.front().second);
      }
    }
    for (const OpId old : graph_.ops().ids()) {
      const OpId forward = graph_.op(old).gradient_of;
      if (forward == kNone || new_op_[old] == kNone || new_op_[forward] == kNone) continue;
      out_.SetGradientOf(new_op_[old], new_op_[forward]);
    }
  }

  const Graph& graph_;
  const Precision& precision_;
  Graph out_;
  Table<ValueId, Forms> forms_;  // by old value
  Table<OpId, OpId> new_op_;     // by old op; kNone: not written
  // By old gradient of a parameter, if it is reduced in 16 bits: the value in its recorded dtype.
  absl::flat_hash_map<ValueId, ValueId> widened_;
};

}  // namespace

absl::StatusOr<Graph> RewritePrecision(const Graph& graph, const Precision& precision) {
  const auto is_gradient = [](const Op& op) { return op.phase == Phase::kBackward; };
  if (precision.parameters == DType::kF16 && absl::c_any_of(graph.ops(), is_gradient) &&
      graph.FindState(kLossScalePath) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the Plan's precision: f16 needs a loss scale, and graph '", graph.name(),
                     "' has no state '", kLossScalePath,
                     "': record the training step for f16 (--dtype=f16), or use bf16"));
  }
  return PrecisionWriter(graph, precision).Write();
}

}  // namespace tessera
