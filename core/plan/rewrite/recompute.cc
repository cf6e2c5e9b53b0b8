#include "core/plan/rewrite/recompute.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/plan/graph/copy_graph.h"
#include "core/plan/rewrite/recomputed_ops.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Returns the earlier one of two ops, of which kNone is none.
OpId Earlier(OpId a, OpId b) {
  if (a == kNone) return b;
  return b == kNone ? a : std::min(a, b);
}

// The place of a copy, which runs right before the op that needs it.
struct Place {
  OpId before;  // kNone: there is no copy
  OpId after;   // the copy must run after this op; kNone: there is none
};

// Rewrites a Graph so that the backward pass computes the activations of the chosen ops again,
// right before it first reads them.
class Recomputer {
 public:
  Recomputer(const Graph& graph, const RecomputedOps& ops)
      : graph_(graph), ops_(ops), by_itself_(ops.by_itself) {}

  Graph Rewrite() && {
    AddViews();
    MarkKept();
    FindCopies();
    PlaceInBlocks();
    PlaceByThemselves();
    return Write();
  }

 private:
  bool Forward(OpId op) const { return graph_.op(op).phase == Phase::kForward; }
  bool IsRecomputed(OpId op) const {
    return Forward(op) && (ops_.whole_block[op] != kNone || by_itself_[op]);
  }

  // Adds to by_itself_ the views of values that such ops compute: a view that is kept would keep
  // the values.
  void AddViews() {
    for (const OpId id : graph_.ops().ids()) {
      const Op& op = graph_.op(id);
      if (!Forward(id) || !op.kind->is_view() || ops_.whole_block[id] != kNone) continue;
      for (const ValueId input : op.inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer != kNone && by_itself_[producer] && !Leaves(producer, id)) {
          by_itself_[id] = true;
        }
      }
    }
  }

  // Returns whether `reader` is outside of the block of a producer.
  bool Leaves(OpId producer, OpId reader) const {
    return ops_.whole_block[producer] != kNone
               ? ops_.whole_block[reader] != ops_.whole_block[producer]
               : ops_.home[reader] != ops_.home[producer];
  }

  // Sets kept_ of values that are in memory during the backward pass anyway: they are read instead
  // of being computed again.
  void MarkKept() {
    kept_.assign(graph_.values().size(), false);
    for (const ValueId i : graph_.values().ids()) {
      const OpId producer = graph_.values()[i].producer;
      kept_[i] = producer == kNone || !IsRecomputed(producer);
    }
    for (const State& state : graph_.states()) kept_[state.updated] = true;
    for (const GraphOutput& output : graph_.outputs()) kept_[output.value] = true;
    for (const Op& op : graph_.ops()) {
      if (op.phase != Phase::kUpdate) continue;
      for (const ValueId input : op.inputs) kept_[input] = true;
    }
    // A number takes no memory to speak of, and micro-batches can share it.
    for (const Op& op : graph_.ops()) {
      if (!op.inputs.empty()) continue;
      for (const ValueId output : op.outputs) {
        if (NumElements(graph_.value(output).type.shape) == 1) kept_[output] = true;
      }
    }
    for (const OpId op : graph_.ops().ids()) {
      if (!Forward(op)) continue;
      for (const ValueId input : graph_.op(op).inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer != kNone && Leaves(producer, op)) kept_[input] = true;
      }
    }
    KeepViewedValues();
    for (const Op& op : graph_.ops()) {
      if (!op.kind->is_view()) continue;
      if (!absl::c_all_of(op.inputs, [this](ValueId input) { return kept_[input]; })) continue;
      for (const ValueId output : op.outputs) kept_[output] = true;
    }
  }

  // Sets kept_ of values of which a view is kept.
  void KeepViewedValues() {
    for (OpId id = graph_.ops().end_id() - 1; id != kNone; --id) {
      const Op& op = graph_.op(id);
      if (!by_itself_[id] || !op.kind->is_view()) continue;
      if (absl::c_none_of(op.outputs, [this](ValueId output) { return kept_[output]; })) continue;
      for (const ValueId input : op.inputs) kept_[input] = true;
    }
  }

  // Sets `before` of the ops that compute needed values: the first op outside of the forward pass
  // that reads such a value, or that needs a copy which reads one.
  void FindCopies() {
    Table<ValueId, OpId> needed_by(graph_.values().size(), kNone);
    for (const OpId id : graph_.ops().ids()) {
      if (Forward(id)) continue;
      for (const ValueId input : graph_.op(id).inputs) {
        if (!kept_[input]) needed_by[input] = Earlier(needed_by[input], id);
      }
    }
    places_.assign(graph_.ops().size(), Place());
    for (OpId id = graph_.ops().end_id() - 1; id != kNone; --id) {
      OpId& before = places_[id].before;
      for (const ValueId output : graph_.op(id).outputs) {
        before = Earlier(before, needed_by[output]);
      }
      if (before == kNone) continue;
      for (const ValueId input : graph_.op(id).inputs) {
        if (!kept_[input]) needed_by[input] = Earlier(needed_by[input], before);
      }
    }
  }

  // Sets the places of copies of whole blocks: all copies of a block stand before the first op that
  // needs one, and after the op that computes the gradient at the block's end. That is the last op
  // outside of the block, before its recomputation, that its backward ops read. If copies ran
  // earlier, several blocks' activations would be in memory.
  void PlaceInBlocks() {
    Table<BlockId, Place> blocks(graph_.blocks().size());
    for (const OpId id : graph_.ops().ids()) {
      if (!Forward(id) || ops_.whole_block[id] == kNone) continue;
      OpId& before = blocks[ops_.whole_block[id]].before;
      before = Earlier(before, places_[id].before);
    }
    for (const OpId id : graph_.ops().ids()) {
      if (Forward(id) || ops_.whole_block[id] == kNone) continue;
      Place& block = blocks[ops_.whole_block[id]];
      for (const ValueId input : graph_.op(id).inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer == kNone || Forward(producer) || producer >= block.before ||
            ops_.whole_block[producer] == ops_.whole_block[id]) {
          continue;
        }
        block.after = std::max(block.after, producer);
      }
    }
    for (const OpId id : graph_.ops().ids()) {
      if (places_[id].before == kNone || ops_.whole_block[id] == kNone) continue;
      places_[id] = blocks[ops_.whole_block[id]];
    }
  }

  // Sets `after` of the copies of other ops: the last op outside of the forward pass that computes
  // an input of the op before which the copy stands. Often that input is a gradient. If there is
  // none, as for a cast of an activation, the last op before it that reads such an input.
  void PlaceByThemselves() {
    Table<OpId, OpId> arrival(graph_.ops().size(), kNone);
    OpId last = kNone;
    for (const OpId id : graph_.ops().ids()) {
      if (Forward(id)) continue;
      for (const ValueId input : graph_.op(id).inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer == kNone || Forward(producer)) continue;
        arrival[id] = std::max(arrival[id], producer);
      }
      if (arrival[id] == kNone) {
        arrival[id] = last;
      } else {
        last = id;
      }
    }
    for (const OpId id : graph_.ops().ids()) {
      Place& place = places_[id];
      if (place.before == kNone || ops_.whole_block[id] != kNone) continue;
      place.after = arrival[place.before];
    }
  }

  Graph Write() {
    Table<OpId, std::vector<OpId>> copies_before(graph_.ops().size());
    for (const OpId id : graph_.ops().ids()) {
      if (places_[id].before != kNone) copies_before[places_[id].before].push_back(id);
    }
    Graph out(graph_.name());
    new_value_.assign(graph_.values().size(), kNone);
    copy_.assign(graph_.values().size(), kNone);
    new_op_.assign(graph_.ops().size(), kNone);
    for (const GraphInput& input : graph_.inputs()) {
      new_value_[input.value] =
          out.AppendInput(graph_.value(input.value), input.batch_dim, input.origin);
    }
    CopyStatesAndBlocks(graph_, out, new_value_);
    for (const OpId id : graph_.ops().ids()) {
      for (const OpId copied : copies_before[id]) WriteCopy(copied, out);
      WriteOp(id, out);
    }
    CopyResults(
        graph_, [this](ValueId old) { return new_value_[old]; }, out);
    CopyGradientLinks(graph_, new_value_, new_op_, out);
    return out;
  }

  // Appends an op of the source. Ops of the backward pass read copies of activations that are not
  // kept.
  void WriteOp(OpId id, Graph& out) {
    Op op = graph_.op(id);
    for (ValueId& input : op.inputs) {
      input =
          !Forward(id) && copy_[input] != kNone && !kept_[input] ? copy_[input] : new_value_[input];
    }
    for (OpId& earlier : op.after) earlier = new_op_[earlier];
    std::vector<Value> outputs;
    for (ValueId output : graph_.op(id).outputs) outputs.push_back(graph_.value(output));
    new_op_[id] = out.AppendOp(std::move(op), outputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      new_value_[graph_.op(id).outputs[i]] = out.op(new_op_[id]).outputs[i];
    }
  }

  // Appends the recomputing copy of a forward op. It waits for the op after which it must run,
  // unless a copy that it reads does.
  void WriteCopy(OpId id, Graph& out) {
    Op op = graph_.op(id);
    op.path = absl::StrCat(op.path, ".recomputed");
    op.phase = Phase::kBackward;
    op.recomputed = true;
    op.after.clear();
    OpId& after = places_[id].after;
    OpId waits = kNone;  // the copies that it reads wait for this op
    for (ValueId& input : op.inputs) {
      if (!kept_[input]) waits = std::max(waits, places_[graph_.value(input).producer].after);
      input = kept_[input] ? new_value_[input] : copy_[input];
    }
    if (after > waits) op.after.push_back(new_op_[after]);
    after = std::max(after, waits);
    std::vector<Value> outputs;
    for (ValueId output : graph_.op(id).outputs) {
      outputs.push_back(graph_.value(output));
      outputs.back().path += ".recomputed";
    }
    const OpId copy = out.AppendOp(std::move(op), outputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      copy_[graph_.op(id).outputs[i]] = out.op(copy).outputs[i];
    }
  }

  const Graph& graph_;
  const RecomputedOps& ops_;
  Table<OpId, bool> by_itself_;  // as in ops_, with views
  Table<ValueId, bool> kept_;
  Table<OpId, Place> places_;  // of the copies of forward ops
  Table<ValueId, ValueId> new_value_;
  Table<ValueId, ValueId> copy_;  // its recomputed copy
  Table<OpId, OpId> new_op_;
};

}  // namespace

absl::StatusOr<Graph> Recompute(const Graph& graph, absl::Span<const std::string> paths) {
  ASSIGN_OR_RETURN(const RecomputedOps ops, FindRecomputedOps(graph, paths));
  return Recomputer(graph, ops).Rewrite();
}

}  // namespace tessera
