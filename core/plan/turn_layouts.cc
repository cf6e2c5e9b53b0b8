#include "core/plan/turn_layouts.h"

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

bool CutsEvenly(const AxisLayout& layout, const TensorType& type, int64_t turns) {
  return !layout.split() || type.shape[layout.dim] % (turns * layout.unit) == 0;
}

// Whether `named`, of a signature, is `actual` with units multiplied by `factor`, which is set if
// it is still 0.
bool TakeFactor(const AxisLayout& named, const AxisLayout& actual, int64_t& factor) {
  if (!named.split() || !actual.split() || named.dim != actual.dim) return false;
  if (actual.unit % named.unit != 0) return false;
  if (factor == 0) factor = actual.unit / named.unit;
  return factor == actual.unit / named.unit;
}

// `signature` with units multiplied by `factor` (0: 1), or nothing if turns do not divide all of
// it.
std::optional<Signature> Scaled(Signature signature, int64_t factor, const OpTypes& types,
                                int64_t turns) {
  factor = std::max<int64_t>(factor, 1);
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    signature.inputs[i] = WithUnitTimes(signature.inputs[i], factor);
    if (!CutsEvenly(signature.inputs[i], types.inputs[i], turns)) return std::nullopt;
  }
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    signature.outputs[i] = WithUnitTimes(signature.outputs[i], factor);
    if (!CutsEvenly(signature.outputs[i], types.outputs[i], turns)) return std::nullopt;
  }
  return signature;
}

// `signature` with the units that arrive, or nothing if it does not take what arrives.
std::optional<Signature> Fit(const Signature& signature, absl::Span<const AxisLayout> arriving,
                             const OpTypes& types, int64_t turns) {
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
  return Scaled(signature, factor, types, turns);
}

std::optional<Signature> BestSignature(const Op& op, absl::Span<const AxisLayout> arriving,
                                       const OpTypes& types, int64_t turns) {
  std::optional<Signature> best;
  int64_t best_splits = -1;
  for (const Signature& signature : op.kind->Signatures(types)) {
    std::optional<Signature> fit = Fit(signature, arriving, types, turns);
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

class TurnPlanner {
 public:
  TurnPlanner(const Graph& graph, int64_t turns) : graph_(graph), turns_(turns) {
    result_.values.resize(graph.values().size());
    result_.gathered.resize(graph.values().size(), false);
  }

  absl::StatusOr<TurnLayouts> Plan() && {
    RETURN_IF_ERROR(CutInputs());
    for (const Op& op : graph_.ops()) result_.ops.push_back(Assign(op));
    for (const State& state : graph_.states()) NeedWhole(state.updated);
    for (const GraphOutput& output : graph_.outputs()) NeedWhole(output.value);
    MoveIntoTurns();
    RETURN_IF_ERROR(AssignStages());
    return std::move(result_);
  }

 private:
  using Choice = std::function<bool(ValueId)>;

  absl::Status CutInputs() {
    bool any = false;
    for (const GraphInput& input : graph_.inputs()) {
      if (input.batch_dim == kNone) continue;
      any = true;
      const Value& value = graph_.value(input.value);
      const int64_t rows = value.type.shape[input.batch_dim];
      if (rows % turns_ != 0) {
        return absl::InvalidArgumentError(absl::StrCat("micro_batches: ", turns_,
                                                       " turns do not divide the batch of ", rows,
                                                       " rows of input '", value.path, "'"));
      }
      result_.values[input.value] = AxisLayout::Split(input.batch_dim);
    }
    if (any) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("micro_batches: graph '", graph_.name(),
                                                   "' has no input with a batch to cut"));
  }

  void NeedWhole(ValueId value) {
    if (!result_.values[value].broadcast()) result_.gathered[value] = true;
  }

  // Decides how `op` runs, and with it the layouts of its outputs.
  OpTurns Assign(const Op& op) {
    std::vector<ValueId> partials, splits;
    for (ValueId input : op.inputs) {
      if (result_.values[input].partial()) partials.push_back(input);
      if (result_.values[input].split()) splits.push_back(input);
    }
    if (partials.empty() && splits.empty()) return OpTurns();

    std::vector<Choice> choices = {[](ValueId) { return false; }};
    for (ValueId id : partials) choices.push_back([id](ValueId value) { return value == id; });
    choices.push_back([this](ValueId value) { return result_.values[value].partial(); });
    for (ValueId id : splits) choices.push_back([id](ValueId value) { return value == id; });
    choices.push_back([this](ValueId value) { return result_.values[value].split(); });
    for (const Choice& made_whole : choices) {
      if (std::optional<OpTurns> turns = AssignWith(op, made_whole)) return *std::move(turns);
    }
    for (ValueId input : op.inputs) NeedWhole(input);
    return OpTurns();
  }

  std::optional<OpTurns> AssignWith(const Op& op, const Choice& made_whole) {
    std::vector<AxisLayout> arriving;
    bool any = false;
    for (ValueId input : op.inputs) {
      arriving.push_back(made_whole(input) ? AxisLayout::Broadcast() : result_.values[input]);
      any = any || !arriving.back().broadcast();
    }
    if (!any) return std::nullopt;
    const std::vector<TensorType> inputs = graph_.TypesOf(op.inputs);
    const std::vector<TensorType> outputs = graph_.TypesOf(op.outputs);
    const std::optional<Signature> signature =
        BestSignature(op, arriving, {inputs, outputs, op.attributes}, turns_);
    if (!signature.has_value()) return std::nullopt;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (signature->inputs[i] != result_.values[op.inputs[i]]) NeedWhole(op.inputs[i]);
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      result_.values[op.outputs[i]] = signature->outputs[i];
    }
    return OpTurns{TurnStage::kTurn, false, signature->inputs};
  }

  // How an op's output is read.
  struct Reads {
    bool whole = false;              // some reader needs all of it, or readers want different parts
    std::optional<AxisLayout> part;  // what turns read of it
  };

  // An op that could run once, on whole values, but of which each turn reads a part only, runs in
  // turns after all, so that the whole (such as a gradient that is the same for all rows) is never
  // in memory. Readers come before what they read.
  void MoveIntoTurns() {
    std::vector<Reads> reads(graph_.values().size());
    for (const State& state : graph_.states()) reads[state.updated].whole = true;
    for (const GraphOutput& output : graph_.outputs()) reads[output.value].whole = true;
    for (OpId id = static_cast<OpId>(graph_.ops().size()) - 1; id >= 0; --id) {
      const Op& op = graph_.op(id);
      if (result_.ops[id].whole) MoveIntoTurns(op, reads, result_.ops[id]);
      const OpTurns& turns = result_.ops[id];
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        Reads& input = reads[op.inputs[i]];
        const bool part = !turns.whole && turns.inputs[i].split();
        if (part && !input.part.has_value()) input.part = turns.inputs[i];
        if (!part || *input.part != turns.inputs[i]) input.whole = true;
      }
    }
  }

  void MoveIntoTurns(const Op& op, const std::vector<Reads>& reads, OpTurns& turns) {
    for (ValueId input : op.inputs) {
      if (!result_.values[input].broadcast()) return;
    }
    bool any = false;
    for (ValueId output : op.outputs) {
      if (reads[output].whole) return;
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
      turns = {TurnStage::kTurn, false, fit->inputs};
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
    return Scaled(signature, factor, types, turns_);
  }

  // Why an op must run before the turns: the op `reader`, which runs in turns, needs all of
  // `value`.
  struct Need {
    ValueId value = kNone;
    OpId reader = kNone;
  };

  // An op runs before the turns if a whole value that a turn reads follows from it.
  absl::Status AssignStages() {
    std::vector<Need> needs(graph_.ops().size());
    const auto need = [&](OpId producer, const Need& why) {
      if (producer != kNone && needs[producer].reader == kNone) needs[producer] = why;
    };
    for (OpId id = static_cast<OpId>(graph_.ops().size()) - 1; id >= 0; --id) {
      const Op& op = graph_.op(id);
      OpTurns& turns = result_.ops[id];
      const bool before = needs[id].reader != kNone;
      if (before) turns.stage = TurnStage::kBefore;
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const ValueId input = op.inputs[i];
        const OpId producer = graph_.value(input).producer;
        if (before) {
          need(producer, needs[id]);
        } else if (!turns.whole &&
                   (turns.inputs[i].broadcast() || turns.inputs[i] != result_.values[input])) {
          need(producer, {input, id});
        }
      }
      for (OpId earlier : op.after) {
        if (before) {
          need(earlier, needs[id]);
        } else if (!turns.whole && result_.ops[earlier].whole) {
          need(earlier, {graph_.op(earlier).outputs[0], id});
        }
      }
    }
    return CheckBefore(needs);
  }

  // What runs for all turns before the first of them keeps all turns' values: only what follows
  // from the step's inputs alone is allowed to.
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
      const OpTurns& turns = result_.ops[id];
      if (turns.stage != TurnStage::kBefore || turns.whole || state == kNone) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "micro_batches: '", graph_.op(needs[id].reader).path, "' needs '",
          graph_.value(needs[id].value).path, "' of the whole batch in every turn, but '", op.path,
          "' makes it from '", graph_.value(state).path,
          "'; only what follows from the step's inputs alone can be computed for all turns first"));
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const int64_t turns_;
  TurnLayouts result_;
};

}  // namespace

absl::StatusOr<TurnLayouts> LayOutOverTurns(const Graph& graph, int64_t turns) {
  return TurnPlanner(graph, turns).Plan();
}

}  // namespace tessera
