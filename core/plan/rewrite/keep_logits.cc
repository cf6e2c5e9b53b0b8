#include "core/plan/rewrite/keep_logits.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/ops/linear_log_sum_exp.h"
#include "core/ops/operator_list.h"
#include "core/plan/graph/copy_graph.h"

namespace tessera {
namespace {

using Input = LinearLogSumExpInput;
using GradInput = LinearLogSumExpGradInput;

bool ComputesLogits(const Op& op) {
  static const Operator* const kind = FindOperator("linear_log_sum_exp");
  return op.kind == kind;
}

// Returns the op whose logits `op` computes again; kNone if there is none.
OpId ForwardOf(const Graph& graph, const Op& op) {
  static const Operator* const kind = FindOperator("linear_log_sum_exp_grad");
  if (op.kind != kind || op.gradient_of == kNone || KeepsLogits(op.attributes)) return kNone;
  const Op& forward = graph.op(op.gradient_of);
  return ComputesLogits(forward) && !KeepsLogits(forward.attributes) ? op.gradient_of : OpId();
}

// Rewrites a Graph so that logits are kept. Its ops keep their ids.
class LogitsKeeper {
 public:
  LogitsKeeper(const Graph& graph, const RecomputedOps& recomputed)
      : graph_(graph),
        recomputed_(recomputed),
        keeps_(graph.ops().size(), false),
        reads_(graph.ops().size(), kNone),
        new_value_(graph.values().size(), kNone) {}

  Graph Write() && {
    FindOps();
    Graph out(graph_.name());
    for (const GraphInput& input : graph_.inputs()) {
      new_value_[input.value] =
          out.AppendInput(graph_.value(input.value), input.batch_dim, input.origin);
    }
    CopyStatesAndBlocks(graph_, out, new_value_);
    Table<OpId, OpId> new_op(graph_.ops().size(), kNone);
    for (const OpId id : graph_.ops().ids()) new_op[id] = WriteOp(id, out);
    CopyResults(
        graph_, [this](ValueId old) { return new_value_[old]; }, out);
    CopyGradientLinks(graph_, new_value_, new_op, out);
    return out;
  }

 private:
  // Sets keeps_ and reads_.
  void FindOps() {
    for (const OpId id : graph_.ops().ids()) {
      const OpId forward = ForwardOf(graph_, graph_.op(id));
      if (forward == kNone || recomputed_.Has(forward) || !HasSameOperands(id, forward)) continue;
      keeps_[forward] = true;
      reads_[id] = forward;
    }
  }

  // Returns whether a gradient works on the x and w of its forward op, and not on slices of them.
  bool HasSameOperands(OpId gradient, OpId forward) const {
    const std::vector<ValueId>& read = graph_.op(gradient).inputs;
    const std::vector<ValueId>& used = graph_.op(forward).inputs;
    const auto is_same = [&](int a, int b) {
      return graph_.value(read[a]).type == graph_.value(used[b]).type;
    };
    return is_same(GradInput::kX, Input::kX) && is_same(GradInput::kW, Input::kW);
  }

  OpId WriteOp(OpId id, Graph& out) {
    const Op& old = graph_.op(id);
    Op op = old;
    for (ValueId& input : op.inputs) input = new_value_[input];
    std::vector<Value> outputs;
    for (const ValueId output : old.outputs) outputs.push_back(graph_.value(output));
    if (keeps_[id]) outputs.push_back(LogitsOf(old, out));
    if (reads_[id] != kNone) {
      op.inputs.push_back(out.op(reads_[id]).outputs[LinearLogSumExpOutput::kLogits]);
    }
    if (keeps_[id] || reads_[id] != kNone) op.attributes.Set("keep_logits", true);
    const OpId written = out.AppendOp(std::move(op), outputs);
    for (size_t i = 0; i < old.outputs.size(); ++i) {
      new_value_[old.outputs[i]] = out.op(written).outputs[i];
    }
    return written;
  }

  // Describes the logits of a forward op.
  Value LogitsOf(const Op& op, const Graph& out) const {
    Value logits;
    logits.type = graph_.value(op.outputs[LinearLogSumExpOutput::kLse]).type;
    logits.type.shape.push_back(graph_.value(op.inputs[Input::kW]).type.shape[0]);
    logits.path = absl::StrCat(op.path, ".logits");
    for (int i = 1; !graph_.PathIsFree(logits.path) || !out.PathIsFree(logits.path); ++i) {
      logits.path = absl::StrCat(op.path, ".logits_", i);
    }
    return logits;
  }

  const Graph& graph_;
  const RecomputedOps& recomputed_;
  Table<OpId, bool> keeps_;  // forward ops that keep their logits
  Table<OpId, OpId> reads_;  // by gradient: the op whose logits it reads, or kNone
  Table<ValueId, ValueId> new_value_;
};

}  // namespace

bool HasLogitsToKeep(const Graph& graph) {
  return absl::c_any_of(graph.ops(), [&](const Op& op) { return ForwardOf(graph, op) != kNone; });
}

Graph KeepLogits(const Graph& graph, const RecomputedOps& recomputed) {
  return LogitsKeeper(graph, recomputed).Write();
}

void AddLogits(const Graph& graph, const Op& op, Signature& signature) {
  const bool writes = op.outputs.size() > signature.outputs.size();
  const bool reads = op.inputs.size() > signature.inputs.size();
  if (!writes && !reads) return;
  const AxisLayout& x = signature.inputs[reads ? +GradInput::kX : +Input::kX];
  const AxisLayout& w = signature.inputs[reads ? +GradInput::kW : +Input::kW];
  const ValueId logits = reads ? op.inputs.back() : op.outputs.back();
  const int words = static_cast<int>(graph.value(logits).type.shape.size()) - 1;
  const AxisLayout layout = x.split()   ? x
                            : w.split() ? AxisLayout::Split(words, w.unit)
                                        : AxisLayout::Broadcast();
  (reads ? signature.inputs : signature.outputs).push_back(layout);
}

}  // namespace tessera
