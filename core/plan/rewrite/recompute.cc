#include "core/plan/rewrite/recompute.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ids/table.h"
#include "core/plan/graph/copy_graph.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

// The recomputation of one block.
struct BlockRecomputation {
  std::vector<OpId> copied;  // the forward ops that run again, in order
  OpId before;               // the copies stand before this op
  OpId after;                // and must run after this one; kNone: there is none
};

// Rewrites a Graph so that the backward pass computes the activations of the chosen blocks again,
// right before it first reads one of them.
class Recomputer {
 public:
  Recomputer(const Graph& graph, const std::vector<std::string>& blocks)
      : graph_(graph), blocks_(blocks), block_of_(graph.ops().size(), kNone) {}

  Graph Rewrite() && {
    AssignBlocks();
    MarkKept();
    std::vector<BlockRecomputation> work(blocks_.size());
    FindReaders(work);
    FindOpsToCopy(work);
    FindArrivingGradients(work);
    return Write(work);
  }

 private:
  bool Forward(OpId op) const { return graph_.op(op).phase == Phase::kForward; }

  // Sets block_of_ of forward and backward ops alike.
  void AssignBlocks() {
    absl::flat_hash_map<absl::string_view, int> index;
    for (size_t i = 0; i < blocks_.size(); ++i) index[blocks_[i]] = static_cast<int>(i);
    for (const OpId op : graph_.ops().ids()) {
      const BlockId block = graph_.op(op).block;
      if (block == kNone) continue;
      const auto chosen = index.find(graph_.blocks()[block]);
      if (chosen != index.end()) block_of_[op] = chosen->second;
    }
  }

  // Sets kept_ of values that are in memory during the backward pass anyway: they are read instead
  // of being computed again. Requires block_of_.
  void MarkKept() {
    kept_.assign(graph_.values().size(), false);
    for (const ValueId i : graph_.values().ids()) {
      const OpId producer = graph_.values()[i].producer;
      kept_[i] = producer == kNone || block_of_[producer] == kNone || !Forward(producer);
    }
    for (const State& state : graph_.states()) kept_[state.updated] = true;
    for (const GraphOutput& output : graph_.outputs()) kept_[output.value] = true;
    for (const OpId op : graph_.ops().ids()) {
      if (!Forward(op)) continue;
      for (ValueId input : graph_.op(op).inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer != kNone && block_of_[producer] != block_of_[op]) kept_[input] = true;
      }
    }
    for (const OpId id : graph_.ops().ids()) {
      const Op& op = graph_.op(id);
      if (!op.kind->is_view()) continue;
      if (!absl::c_all_of(op.inputs, [this](ValueId input) { return kept_[input]; })) continue;
      for (ValueId output : op.outputs) kept_[output] = true;
    }
  }

  // Sets `before` of each block, the first op outside of the forward pass that reads its
  // activations, and needed_ of the activations that are read.
  void FindReaders(std::vector<BlockRecomputation>& work) {
    needed_.assign(graph_.values().size(), false);
    for (const OpId id : graph_.ops().ids()) {
      if (Forward(id)) continue;
      for (ValueId input : graph_.op(id).inputs) {
        if (kept_[input]) continue;
        needed_[input] = true;
        OpId& before = work[block_of_[graph_.value(input).producer]].before;
        if (before == kNone) before = id;
      }
    }
  }

  // Sets `copied` of each block: the ops that compute needed values, and, from the last op to the
  // first, those that compute the inputs of such ops.
  void FindOpsToCopy(std::vector<BlockRecomputation>& work) {
    for (OpId id = graph_.ops().end_id() - 1; id != kNone; --id) {
      const Op& op = graph_.op(id);
      if (!absl::c_any_of(op.outputs, [this](ValueId output) { return needed_[output]; })) continue;
      work[block_of_[id]].copied.push_back(id);
      for (ValueId input : op.inputs) {
        if (!kept_[input]) needed_[input] = true;
      }
    }
    for (BlockRecomputation& block : work) absl::c_reverse(block.copied);
  }

  // Sets `after` of each block: the op that computes the gradient at the block's end, which is the
  // last op outside of the block, before its recomputation, that its backward ops read. Copies must
  // not run earlier, or several blocks' activations would be in memory.
  void FindArrivingGradients(std::vector<BlockRecomputation>& work) {
    for (const OpId id : graph_.ops().ids()) {
      if (Forward(id) || block_of_[id] == kNone) continue;
      BlockRecomputation& block = work[block_of_[id]];
      for (ValueId input : graph_.op(id).inputs) {
        const OpId producer = graph_.value(input).producer;
        if (producer == kNone || Forward(producer) || block_of_[producer] == block_of_[id] ||
            producer >= block.before) {
          continue;
        }
        block.after = std::max(block.after, producer);
      }
    }
  }

  Graph Write(const std::vector<BlockRecomputation>& work) {
    Table<OpId, std::vector<int>> blocks_before(graph_.ops().size());
    for (size_t i = 0; i < work.size(); ++i) {
      if (work[i].before != kNone) blocks_before[work[i].before].push_back(static_cast<int>(i));
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
      for (int block : blocks_before[id]) {
        for (OpId copied : work[block].copied) WriteCopy(copied, work[block].after, out);
      }
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

  // Appends the recomputing copy of a forward op. A copy that reads no other copy waits for
  // `after`.
  void WriteCopy(OpId id, OpId after, Graph& out) {
    Op op = graph_.op(id);
    op.path = absl::StrCat(op.path, ".recomputed");
    op.phase = Phase::kBackward;
    op.recomputed = true;
    op.after.clear();
    bool reads_copy = false;
    for (ValueId& input : op.inputs) {
      reads_copy = reads_copy || !kept_[input];
      input = kept_[input] ? new_value_[input] : copy_[input];
    }
    if (!reads_copy && after != kNone) op.after.push_back(new_op_[after]);
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
  const std::vector<std::string>& blocks_;
  Table<OpId, int> block_of_;  // the index in blocks_, or kNone
  Table<ValueId, bool> kept_;
  Table<ValueId, bool> needed_;  // not kept, and the backward pass needs it
  Table<ValueId, ValueId> new_value_;
  Table<ValueId, ValueId> copy_;  // its recomputed copy
  Table<OpId, OpId> new_op_;
};

}  // namespace

absl::Status CheckBlocks(const Graph& graph, absl::Span<const std::string> blocks) {
  const absl::flat_hash_set<std::string> known(graph.blocks().begin(), graph.blocks().end());
  for (const std::string& block : blocks) {
    if (known.contains(block)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "recompute: graph '", graph.name(), "' has no block ", Quote(block), "; ",
        known.empty() ? "it has none"
                      : absl::StrCat("its blocks are ", absl::StrJoin(graph.blocks(), ", "))));
  }
  return absl::OkStatus();
}

absl::StatusOr<Graph> RecomputeBlocks(const Graph& graph, absl::Span<const std::string> blocks) {
  RETURN_IF_ERROR(CheckBlocks(graph, blocks));
  std::vector<std::string> chosen(blocks.begin(), blocks.end());
  absl::c_sort(chosen);
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return Recomputer(graph, chosen).Rewrite();
}

}  // namespace tessera
