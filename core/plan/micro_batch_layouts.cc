#include "core/plan/micro_batch_layouts.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Every signature stays true with all of its units multiplied by one number.
AxisLayout WithUnitTimes(AxisLayout layout, int64_t factor) {
  if (layout.split()) layout.unit *= factor;
  return layout;
}

bool SplitsEvenly(const AxisLayout& layout, const TensorType& type, int64_t micro_batches) {
  return !layout.split() || type.shape[layout.dim] % (micro_batches * layout.unit) == 0;
}

// Whether `named`, of a signature, is `actual` with units multiplied by `factor`, which is set if
// it is still 0.
bool TakeFactor(const AxisLayout& named, const AxisLayout& actual, int64_t& factor) {
  if (!named.split() || !actual.split() || named.dim != actual.dim) return false;
  if (actual.unit % named.unit != 0) return false;
  if (factor == 0) factor = actual.unit / named.unit;
  return factor == actual.unit / named.unit;
}

// `signature` with units multiplied by `factor` (0: 1), or nothing if the micro-batches do not
// divide all of it.
std::optional<Signature> Scaled(Signature signature, int64_t factor, const OpTypes& types,
                                int64_t micro_batches) {
  factor = std::max<int64_t>(factor, 1);
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    signature.inputs[i] = WithUnitTimes(signature.inputs[i], factor);
    if (!SplitsEvenly(signature.inputs[i], types.inputs[i], micro_batches)) return std::nullopt;
  }
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    signature.outputs[i] = WithUnitTimes(signature.outputs[i], factor);
    if (!SplitsEvenly(signature.outputs[i], types.outputs[i], micro_batches)) return std::nullopt;
  }
  return signature;
}

// `signature` with the units that arrive, or nothing if it does not take what arrives.
std::optional<Signature> Fit(const Signature& signature, absl::Span<const AxisLayout> arriving,
                             const OpTypes& types, int64_t micro_batches) {
  int64_t factor = 0;
  for (size_t i = 0; i < arriving.size(); ++i) {
    const AxisLayout& wanted = signature.inputs[i];
    if (arriving[i].broadcast()) {
      if (wanted.partial()) return std::nullopt;
    } else if (arriving[i].partial()) {
      if (wanted != arriving[i]) return std::nullopt;
    } else if (!TakeFactor(wanted, arriving[i], factor)) {
      return std::nullopt;
    }
  }
  return Scaled(signature, factor, types, micro_batches);
}

std::optional<Signature> BestSignature(const Op& op, absl::Span<const AxisLayout> arriving,
                                       const OpTypes& types, int64_t micro_batches) {
  std::optional<Signature> best;
  int64_t best_splits = -1;
  for (const Signature& signature : op.kind->Signatures(types)) {
    std::optional<Signature> fit = Fit(signature, arriving, types, micro_batches);
    if (!fit.has_value()) continue;
    const int64_t splits = std::count_if(fit->outputs.begin(), fit->outputs.end(),
                                         [](const AxisLayout& layout) { return layout.split(); });
    if (splits > best_splits) {
      best = std::move(fit);
      best_splits = splits;
    }
  }
  return best;
}

class MicroBatchPlanner {
 public:
  MicroBatchPlanner(const Graph& graph, int64_t micro_batches)
      : graph_(graph), micro_batches_(micro_batches) {
    result_.values.resize(graph.values().size());
    result_.gathered.resize(graph.values().size(), false);
  }

  absl::StatusOr<MicroBatchLayouts> Plan() && {
    RETURN_IF_ERROR(SplitInputs());
    for (const Op& op : graph_.ops()) result_.ops.push_back(Assign(op));
    for (const State& state : graph_.states()) NeedFull(state.updated);
    for (const GraphOutput& output : graph_.outputs()) NeedFull(output.value);
    MoveIntoMicroBatches();
    RETURN_IF_ERROR(AssignStages());
    return std::move(result_);
  }

 private:
  using Choice = std::function<bool(ValueId)>;

  absl::Status SplitInputs() {
    bool any = false;
    for (const GraphInput& input : graph_.inputs()) {
      if (input.batch_dim == kNone) continue;
      any = true;
      const Value& value = graph_.value(input.value);
      const int64_t rows = value.type.shape[input.batch_dim];
      if (rows % micro_batches_ != 0) {
        return absl::InvalidArgumentError(absl::StrCat("micro_batches: ", micro_batches_,
                                                       " does not divide the batch of ", rows,
                                                       " rows of input '", value.path, "'"));
      }
      result_.values[input.value] = AxisLayout::Split(input.batch_dim);
    }
    if (any) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("micro_batches: graph '", graph_.name(),
                                                   "' has no input with a batch to split"));
  }

  void NeedFull(ValueId value) {
    if (!result_.values[value].broadcast()) result_.gathered[value] = true;
  }

  // Decides how `op` runs, and with it the layouts of its outputs.
  OpSchedule Assign(const Op& op) {
    std::vector<ValueId> partials, splits;
    for (ValueId input : op.inputs) {
      if (result_.values[input].partial()) partials.push_back(input);
      if (result_.values[input].split()) splits.push_back(input);
    }
    if (partials.empty() && splits.empty()) return OpSchedule();

    std::vector<Choice> choices = {[](ValueId) { return false; }};
    for (ValueId id : partials) choices.push_back([id](ValueId value) { return value == id; });
    choices.push_back([this](ValueId value) { return result_.values[value].partial(); });
    for (ValueId id : splits) choices.push_back([id](ValueId value) { return value == id; });
    choices.push_back([this](ValueId value) { return result_.values[value].split(); });
    for (const Choice& made_full : choices) {
      if (std::optional<OpSchedule> schedule = AssignWith(op, made_full)) {
        return *std::move(schedule);
      }
    }
    for (ValueId input : op.inputs) NeedFull(input);
    return OpSchedule();
  }

  std::optional<OpSchedule> AssignWith(const Op& op, const Choice& made_full) {
    std::vector<AxisLayout> arriving;
    bool any = false;
    for (ValueId input : op.inputs) {
      arriving.push_back(made_full(input) ? AxisLayout::Broadcast() : result_.values[input]);
      any = any || !arriving.back().broadcast();
    }
    if (!any) return std::nullopt;
    const std::vector<TensorType> inputs = graph_.TypesOf(op.inputs);
    const std::vector<TensorType> outputs = graph_.TypesOf(op.outputs);
    const std::optional<Signature> signature =
        BestSignature(op, arriving, {inputs, outputs, op.attributes}, micro_batches_);
    if (!signature.has_value()) return std::nullopt;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (signature->inputs[i] != result_.values[op.inputs[i]]) NeedFull(op.inputs[i]);
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      result_.values[op.outputs[i]] = signature->outputs[i];
    }
    return OpSchedule{MicroBatchStage::kEach, false, signature->inputs};
  }

  // How an op's output is read.
  struct Reads {
    bool full = false;               // some reader needs all of it, or readers want different parts
    std::optional<AxisLayout> part;  // the layout in which micro-batches read it
  };

  // An op that could run once, on full values, but of which each micro-batch reads a part only,
  // runs in each after all, so that the full value (such as a gradient that is the same for all
  // rows) is never in memory. Visits readers before what they read.
  void MoveIntoMicroBatches() {
    std::vector<Reads> reads(graph_.values().size());
    for (const State& state : graph_.states()) reads[state.updated].full = true;
    for (const GraphOutput& output : graph_.outputs()) reads[output.value].full = true;
    for (OpId id = static_cast<OpId>(graph_.ops().size()) - 1; id >= 0; --id) {
      const Op& op = graph_.op(id);
      if (result_.ops[id].full) MoveIntoMicroBatches(op, reads, result_.ops[id]);
      const OpSchedule& schedule = result_.ops[id];
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        Reads& input = reads[op.inputs[i]];
        const bool part = !schedule.full && schedule.inputs[i].split();
        if (part && !input.part.has_value()) input.part = schedule.inputs[i];
        if (!part || *input.part != schedule.inputs[i]) input.full = true;
      }
    }
  }

  void MoveIntoMicroBatches(const Op& op, const std::vector<Reads>& reads, OpSchedule& schedule) {
    for (ValueId input : op.inputs) {
      if (!result_.values[input].broadcast()) return;
    }
    bool any = false;
    for (ValueId output : op.outputs) {
      if (reads[output].full) return;
      any = any || reads[output].part.has_value();
    }
    if (!any) return;
    const std::vector<TensorType> inputs = graph_.TypesOf(op.inputs);
    const std::vector<TensorType> outputs = graph_.TypesOf(op.outputs);
    const OpTypes types = {inputs, outputs, op.attributes};
    for (const Signature& signature : op.kind->Signatures(types)) {
      const std::optional<Signature> fit = FitOutputs(signature, op, reads, types);
      if (!fit.has_value()) continue;
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        result_.values[op.outputs[i]] = fit->outputs[i];
      }
      schedule = {MicroBatchStage::kEach, false, fit->inputs};
      return;
    }
  }

  // `signature` with the units that are read, or nothing if it does not make what is read.
  std::optional<Signature> FitOutputs(const Signature& signature, const Op& op,
                                      const std::vector<Reads>& reads, const OpTypes& types) const {
    int64_t factor = 0;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const std::optional<AxisLayout>& read = reads[op.outputs[i]].part;
      if (read.has_value() && !TakeFactor(signature.outputs[i], *read, factor)) return std::nullopt;
    }
    for (const AxisLayout& input : signature.inputs) {
      if (input.partial()) return std::nullopt;
    }
    return Scaled(signature, factor, types, micro_batches_);
  }

  // Why an op must run before the micro-batches: the op `reader`, which runs in each, needs all of
  // `value`.
  struct Need {
    ValueId value = kNone;
    OpId reader = kNone;
  };

  // An op runs before the micro-batches if a full value that one of them reads follows from it.
  absl::Status AssignStages() {
    std::vector<Need> needs(graph_.ops().size());
    const auto need = [&](OpId producer, const Need& why) {
      if (producer != kNone && needs[producer].reader == kNone) needs[producer] = why;
    };
    for (OpId id = static_cast<OpId>(graph_.ops().size()) - 1; id >= 0; --id) {
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

  // An op that runs for all micro-batches before the first keeps the values of all: allowed only if
  // it follows from the step's inputs alone.
  absl::Status CheckBefore(const std::vector<Need>& needs) {
    std::vector<ValueId> state_of(graph_.values().size(), kNone);  // a state that it follows from
    for (const State& state : graph_.states()) {
      if (state.input != kNone) state_of[state.input] = state.input;
    }
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops().size()); ++id) {
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
  const int64_t micro_batches_;
  MicroBatchLayouts result_;
};

}  // namespace

absl::StatusOr<MicroBatchLayouts> LayOutMicroBatches(const Graph& graph, int64_t micro_batches) {
  return MicroBatchPlanner(graph, micro_batches).Plan();
}

}  // namespace tessera
