#include "core/plan/rewrite/micro_batch_layouts.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/layout/signature_fit.h"
#include "core/plan/graph/op_signatures.h"
#include "core/plan/layouts/read_layouts.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Decides for every op whether it runs in each micro-batch, or once before or after them.
class MicroBatchPlanner {
 public:
  MicroBatchPlanner(const Graph& graph, int64_t micro_batches)
      : graph_(graph), axis_{micro_batches, /*even=*/true} {
    result_.values.resize(graph.values().size());
    result_.gathered.resize(graph.values().size(), false);
  }

  absl::StatusOr<MicroBatchLayouts> Plan() && {
    RETURN_IF_ERROR(SplitInputs());
    for (const Op& op : graph_.ops()) {
      RETURN_IF_ERROR(CheckMicroBatches(op));
      result_.ops.push_back(Schedule(op));
    }
    for (const State& state : graph_.states()) RequireFull(state.updated);
    for (const GraphOutput& output : graph_.outputs()) RequireFull(output.value);
    MoveIntoMicroBatches();
    RETURN_IF_ERROR(AssignStages());
    return std::move(result_);
  }

 private:
  absl::Status SplitInputs() {
    bool has_batch = false;
    for (const GraphInput& input : graph_.inputs()) {
      if (input.batch_dim == kNone) continue;
      has_batch = true;
      const Value& value = graph_.value(input.value);
      const int64_t rows = value.type.shape[input.batch_dim];
      if (rows % axis_.parts != 0) {
        return absl::InvalidArgumentError(absl::StrCat("micro_batches: ", axis_.parts,
                                                       " does not divide the batch of ", rows,
                                                       " rows of input '", value.path, "'"));
      }
      result_.values[input.value] = AxisLayout::Split(input.batch_dim);
    }
    if (has_batch) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("micro_batches: graph '", graph_.name(),
                                                   "' has no input with a batch to split"));
  }

  // Has a value gathered after the micro-batches, for a reader that needs all of it.
  void RequireFull(ValueId value) {
    if (!result_.values[value].broadcast()) result_.gathered[value] = true;
  }

  // Returns an error if `op` may not read what arrives in micro-batches.
  absl::Status CheckMicroBatches(const Op& op) const {
    const bool reads_split = absl::c_any_of(
        op.inputs, [this](ValueId input) { return !result_.values[input].broadcast(); });
    if (!reads_split) return absl::OkStatus();
    const std::vector<TensorType> inputs = graph_.TypesOf(op.inputs),
                                  outputs = graph_.TypesOf(op.outputs);
    const absl::Status status =
        op.kind->CheckMicroBatches({inputs, outputs, op.attributes}, axis_.parts);
    if (status.ok()) return absl::OkStatus();
    return absl::Status(status.code(), absl::StrCat("micro_batches: operator '", op.path, "' (",
                                                    op.kind->name(), "): ", status.message()));
  }

  // Returns how `op` runs, and sets the layouts of its outputs.
  OpSchedule Schedule(const Op& op) {
    std::vector<Arriving> arriving;
    bool reads_split = false;
    for (ValueId input : op.inputs) {
      arriving.push_back(result_.values[input]);
      reads_split = reads_split || !result_.values[input].broadcast();
    }
    if (!reads_split) return OpSchedule();
    const OpSignatures use(graph_, op);
    const std::optional<SignatureFit> fit = FitOrGather(use.fitted(), arriving, op.inputs, axis_);
    if (!fit.has_value()) {
      for (ValueId input : op.inputs) RequireFull(input);
      return OpSchedule();
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (fit->signature.inputs[i] != result_.values[op.inputs[i]]) RequireFull(op.inputs[i]);
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      result_.values[op.outputs[i]] = fit->signature.outputs[i];
    }
    return OpSchedule{MicroBatchStage::kEach, false, fit->signature.inputs};
  }

  // If an op could run once on full values, but each micro-batch reads only a part of its result,
  // it runs in each micro-batch instead. Then the full value (such as a gradient that is the same
  // for all rows) is never in memory. Visits readers before the ops whose outputs they read.
  void MoveIntoMicroBatches() {
    ReadLayouts reads(graph_.values().size());
    for (const State& state : graph_.states()) reads.AddFull(state.updated);
    for (const GraphOutput& output : graph_.outputs()) reads.AddFull(output.value);
    for (OpId id = graph_.ops().end_id() - 1; id != kNone; --id) {
      const Op& op = graph_.op(id);
      if (result_.ops[id].full) MoveIntoMicroBatches(op, reads, result_.ops[id]);
      const OpSchedule& schedule = result_.ops[id];
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        if (!schedule.full && schedule.inputs[i].split()) {
          reads.Add(op.inputs[i], schedule.inputs[i]);
        } else {
          reads.AddFull(op.inputs[i]);
        }
      }
    }
  }

  // Moves one op, if it reads only full values and a signature gives what its readers read.
  void MoveIntoMicroBatches(const Op& op, const ReadLayouts& reads, OpSchedule& schedule) {
    for (ValueId input : op.inputs) {
      if (!result_.values[input].broadcast()) return;
    }
    const std::optional<std::vector<Arriving>> read = reads.Of(op.outputs);
    if (!read.has_value()) return;
    const OpSignatures use(graph_, op);
    const std::optional<Signature> fit = FindSignatureProducing(use.fitted(), *read, axis_);
    if (!fit.has_value()) return;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      result_.values[op.outputs[i]] = fit->outputs[i];
    }
    schedule = {MicroBatchStage::kEach, false, fit->inputs};
  }

  // Why an op must run before the micro-batches: the op `reader`, which runs in each, needs all of
  // `value`.
  struct Need {
    ValueId value = kNone;
    OpId reader = kNone;
  };

  // Sets the stage of ops that run before the micro-batches: one of them reads a full value that is
  // computed from the op's outputs.
  absl::Status AssignStages() {
    Table<OpId, Need> needs(graph_.ops().size());
    const auto need = [&](OpId producer, const Need& why) {
      if (producer != kNone && needs[producer].reader == kNone) needs[producer] = why;
    };
    for (OpId id = graph_.ops().end_id() - 1; id != kNone; --id) {
      const Op& op = graph_.op(id);
      OpSchedule& schedule = result_.ops[id];
      const bool before = needs[id].reader != kNone;
      if (before) schedule.stage = MicroBatchStage::kBefore;
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const ValueId input = op.inputs[i];
        const OpId producer = graph_.value(input).producer;
        if (before) {
          need(producer, needs[id]);
        } else if (!schedule.full && (schedule.inputs[i].broadcast() ||
                                      schedule.inputs[i] != result_.values[input])) {
          need(producer, {input, id});
        }
      }
      for (OpId earlier : op.after) {
        if (before) {
          need(earlier, needs[id]);
        } else if (!schedule.full && result_.ops[earlier].full) {
          need(earlier, {graph_.op(earlier).outputs[0], id});
        }
      }
    }
    return CheckBefore(needs);
  }

  // The values of an op that runs for all micro-batches before the first one are kept for all of
  // them. This is allowed only if the op is computed from the step's inputs alone.
  absl::Status CheckBefore(const Table<OpId, Need>& needs) {
    Table<ValueId, ValueId> state_of(graph_.values().size(), kNone);  // a state it is computed from
    for (const State& state : graph_.states()) {
      if (state.input != kNone) state_of[state.input] = state.input;
    }
    for (const OpId id : graph_.ops().ids()) {
      const Op& op = graph_.op(id);
      ValueId state = kNone;
      for (ValueId input : op.inputs) {
        if (state == kNone) state = state_of[input];
      }
      for (ValueId output : op.outputs) state_of[output] = state;
      const OpSchedule& schedule = result_.ops[id];
      if (schedule.stage != MicroBatchStage::kBefore || schedule.full || state == kNone) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "micro_batches: '", graph_.op(needs[id].reader).path, "' needs '",
          graph_.value(needs[id].value).path, "' of the full batch in every micro-batch, but '",
          op.path, "' makes it from '", graph_.value(state).path,
          "'; only values that follow from the step's inputs alone can be computed before the "
          "first micro-batch"));
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const SplitAxis axis_;  // the micro-batches
  MicroBatchLayouts result_;
};

}  // namespace

absl::StatusOr<MicroBatchLayouts> LayOutMicroBatches(const Graph& graph, int64_t micro_batches) {
  return MicroBatchPlanner(graph, micro_batches).Plan();
}

}  // namespace tessera
