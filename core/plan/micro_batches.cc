#include "core/plan/micro_batches.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/ops/operator_list.h"
#include "core/plan/copy_graph.h"
#include "core/plan/micro_batch_layouts.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

std::string PathIn(absl::string_view path, int64_t micro_batch) {
  return absl::StrCat(path, "@", micro_batch);
}

// Writes the Graph in micro-batches. Ids of the Graph that is read are called `old`.
class MicroBatchWriter {
 public:
  MicroBatchWriter(const Graph& graph, const MicroBatchLayouts& layouts, int64_t micro_batches,
                   absl::Span<const std::string> separate)
      : graph_(graph),
        layouts_(layouts),
        micro_batches_(micro_batches),
        separate_(separate.begin(), separate.end()),
        out_(graph.name()),
        full_(graph.values().size(), kNone),
        local_(graph.values().size()),
        ops_(graph.ops().size()) {}

  absl::StatusOr<Graph> Write() && {
    CopyInputs();
    CopyStatesAndBlocks(graph_, out_, full_);
    const OpId num_ops = static_cast<OpId>(graph_.ops().size());
    for (OpId old = 0; old < num_ops; ++old) {
      if (StageOf(old) != MicroBatchStage::kBefore) continue;
      if (layouts_.ops[old].full) {
        WriteFull(old);
      } else {
        for (int64_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
          RETURN_IF_ERROR(WriteMicroBatch(old, micro_batch));
        }
      }
    }
    for (int64_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
      for (OpId old = 0; old < num_ops; ++old) {
        if (StageOf(old) == MicroBatchStage::kEach) {
          RETURN_IF_ERROR(WriteMicroBatch(old, micro_batch));
        }
      }
    }
    for (OpId old = 0; old < num_ops; ++old) {
      if (StageOf(old) == MicroBatchStage::kAfter) WriteFull(old);
    }
    CopyResults(
        graph_, [this](ValueId old) { return Full(old); }, out_);
    LinkGradients();
    RETURN_IF_ERROR(out_.status());
    return std::move(out_);
  }

 private:
  MicroBatchStage StageOf(OpId old) const { return layouts_.ops[old].stage; }

  void CopyInputs() {
    for (const GraphInput& input : graph_.inputs()) {
      const Value& value = graph_.value(input.value);
      if (input.batch_dim != kNone && separate_.contains(value.path)) {
        for (int64_t k = 0; k < micro_batches_; ++k) {
          Value part = PartOf(input.value, layouts_.values[input.value], k);
          part.role = Role::kInput;
          local_[input.value].push_back(out_.AppendInput(part, input.batch_dim, input.origin));
        }
      } else {
        full_[input.value] = out_.AppendInput(value, input.batch_dim, input.origin);
      }
    }
  }

  // --- What is a gradient of what --------------------------------------------------------------

  // A value or an op that repeats an old one: in one micro-batch, or (kNone) for the full batch.
  struct Copy {
    int32_t id, old;
    int32_t micro_batch;
  };

  // The value that is `old` in a micro-batch or for the full batch; kNone if there is none.
  ValueId ValueIn(int32_t micro_batch, ValueId old) const {
    if (old == kNone) return kNone;
    if (micro_batch == kNone || local_[old].empty()) return full_[old];
    return local_[old][micro_batch];
  }

  // A gradient may stand before what it is the gradient of, so this comes last.
  void LinkGradients() {
    for (const Copy& copy : copied_values_) {
      const Value& old = graph_.value(copy.old);
      out_.SetGradientOfValue(copy.id, ValueIn(copy.micro_batch, old.gradient_of));
      out_.SetCompleteGradientOf(copy.id, ValueIn(kNone, old.complete_gradient_of));
    }
    for (const Copy& copy : copied_ops_) {
      const OpId forward = graph_.op(copy.old).gradient_of;
      if (forward == kNone) continue;
      const std::vector<OpId>& copies = ops_[forward];
      if (copies.size() == 1) {
        out_.SetGradientOf(copy.id, copies[0]);
      } else if (copy.micro_batch != kNone) {
        out_.SetGradientOf(copy.id, copies[copy.micro_batch]);
      }
    }
  }

  void NoteCopies(OpId id, OpId old, int32_t micro_batch) {
    copied_ops_.push_back({id, old, micro_batch});
    for (size_t i = 0; i < graph_.op(old).outputs.size(); ++i) {
      copied_values_.push_back({out_.op(id).outputs[i], graph_.op(old).outputs[i], micro_batch});
    }
  }

  // --- Values ----------------------------------------------------------------------------------

  // The full value, which is made of an input's parts if something needs it.
  ValueId Full(ValueId old) {
    if (full_[old] == kNone && !local_[old].empty() && graph_.value(old).producer == kNone) {
      const Value& value = graph_.value(old);
      full_[old] = Append("concat", value.path, value.type, local_[old],
                          {{"axis", static_cast<int64_t>(layouts_.values[old].dim)}},
                          Phase::kForward, Role::kActivation);
    }
    return full_[old];
  }

  std::string FreePath(std::string path) const {
    if (out_.PathIsFree(path)) return path;
    for (int i = 1;; ++i) {
      std::string candidate = absl::StrCat(path, "_", i);
      if (out_.PathIsFree(candidate)) return candidate;
    }
  }

  // The part of a value that one micro-batch holds in a layout: an activation, or a gradient.
  Value PartOf(ValueId old, const AxisLayout& layout, int64_t micro_batch) const {
    const Value& value = graph_.value(old);
    Value part;
    part.path = PathIn(value.path, micro_batch);
    part.type = value.type;
    part.role = value.role == Role::kGradient ? Role::kGradient : Role::kActivation;
    if (layout.split()) {
      part.type.shape[layout.dim] /= micro_batches_;
      part.region = LocalRegion(old, layout, micro_batch);
    }
    return part;
  }

  // The part of a value that a micro-batch holds in a layout.
  Region LocalRegion(ValueId old, const AxisLayout& layout, int64_t micro_batch) const {
    const Shape& full = graph_.value(old).type.shape;
    Region region{std::vector<int64_t>(full.size(), 0), {full.begin(), full.end()}};
    if (layout.split()) {
      region.start[layout.dim] = micro_batch * (full[layout.dim] / micro_batches_);
    }
    return region;
  }

  // Appends an op of one output that is not in the Graph that is read.
  ValueId Append(absl::string_view kind, std::string path, TensorType type,
                 std::vector<ValueId> inputs, Attributes attributes, Phase phase, Role role) {
    Op op;
    op.kind = FindOperator(kind);
    op.path = path;
    op.attributes = std::move(attributes);
    op.inputs = std::move(inputs);
    op.phase = phase;
    Value output;
    output.path = std::move(path);
    output.type = std::move(type);
    output.role = role;
    const OpId id = out_.AppendOp(std::move(op), {output});
    return out_.op(id).outputs[0];
  }

  // The part of a full value that one micro-batch reads, split along `dim`.
  ValueId Part(ValueId old, int dim, int64_t micro_batch) {
    std::vector<ValueId>& parts = parts_[{old, dim}];
    if (parts.empty()) {
      const ValueId full = Full(old);
      std::vector<Value> outputs;
      outputs.reserve(micro_batches_);
      for (int64_t k = 0; k < micro_batches_; ++k) {
        outputs.push_back(PartOf(old, AxisLayout::Split(dim), k));
        outputs.back().path = FreePath(std::move(outputs.back().path));
      }
      Op op;
      op.kind = FindOperator("split");
      op.path = absl::StrCat(graph_.value(old).path, ".micro_batches");
      op.attributes = {{"axis", static_cast<int64_t>(dim)},
                       {"sizes", std::vector<int64_t>(micro_batches_, outputs[0].type.shape[dim])}};
      op.inputs = {full};
      if (outputs[0].role == Role::kGradient) op.phase = Phase::kBackward;
      parts = out_.op(out_.AppendOp(std::move(op), outputs)).outputs;
      for (size_t k = 0; k < parts.size(); ++k) {
        copied_values_.push_back({parts[k], old, static_cast<int32_t>(k)});
      }
    }
    return parts[micro_batch];
  }

  // The value that one micro-batch reads in the layout `wanted`.
  ValueId Read(ValueId old, const AxisLayout& wanted, int64_t micro_batch) {
    if (wanted.broadcast()) return Full(old);
    const bool as_it_is = wanted == layouts_.values[old];
    if (as_it_is && !local_[old].empty()) return local_[old][micro_batch];
    return Part(old, wanted.dim, micro_batch);
  }

  void WriteFull(OpId old) {
    Op op = graph_.op(old);
    for (ValueId& input : op.inputs) input = Full(input);
    std::vector<OpId> after;
    for (OpId earlier : op.after) {
      after.insert(after.end(), ops_[earlier].begin(), ops_[earlier].end());
    }
    op.after = std::move(after);
    const std::vector<ValueId> old_outputs = op.outputs;
    std::vector<Value> outputs;
    outputs.reserve(old_outputs.size());
    for (ValueId output : old_outputs) outputs.push_back(graph_.value(output));
    const OpId id = out_.AppendOp(std::move(op), outputs);
    ops_[old] = {id};
    NoteCopies(id, old, kNone);
    for (size_t i = 0; i < old_outputs.size(); ++i) full_[old_outputs[i]] = out_.op(id).outputs[i];
  }

  absl::Status WriteMicroBatch(OpId old, int64_t micro_batch) {
    Op op = graph_.op(old);
    const std::vector<AxisLayout>& wanted = layouts_.ops[old].inputs;
    std::vector<Region> input_regions, output_regions;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      input_regions.push_back(LocalRegion(op.inputs[i], wanted[i], micro_batch));
      op.inputs[i] = Read(op.inputs[i], wanted[i], micro_batch);
    }
    // The ops of one micro-batch, or one that ran for the full batch.
    for (OpId& earlier : op.after) {
      earlier = ops_[earlier].size() > 1 ? ops_[earlier][micro_batch] : ops_[earlier][0];
    }
    op.path = PathIn(op.path, micro_batch);
    op.micro_batch = static_cast<int32_t>(micro_batch);
    const std::vector<ValueId> old_outputs = op.outputs;
    std::vector<Value> outputs;
    std::vector<TensorType> types;
    for (ValueId output : old_outputs) {
      outputs.push_back(PartOf(output, layouts_.values[output], micro_batch));
      types.push_back(outputs.back().type);
      const Region& region = outputs.back().region;
      output_regions.push_back(region.start.empty()
                                   ? LocalRegion(output, layouts_.values[output], micro_batch)
                                   : region);
    }
    op.attributes = op.kind->LocalAttributes(
        op.attributes, {out_.TypesOf(op.inputs), types, input_regions, output_regions});
    RETURN_IF_ERROR(CheckTypes(op, types));
    const OpId id = out_.AppendOp(std::move(op), outputs);
    ops_[old].push_back(id);
    NoteCopies(id, old, static_cast<int32_t>(micro_batch));
    for (size_t i = 0; i < old_outputs.size(); ++i) {
      local_[old_outputs[i]].push_back(out_.op(id).outputs[i]);
      if (layouts_.gathered[old_outputs[i]]) {
        Gather(old_outputs[i], micro_batch, graph_.op(old).phase);
      }
    }
    return absl::OkStatus();
  }

  // Checks an operator's signatures against its shape rule.
  absl::Status CheckTypes(const Op& op, absl::Span<const TensorType> outputs) const {
    const auto inferred = op.kind->InferTypes(out_.TypesOf(op.inputs), op.attributes);
    if (inferred.ok() && absl::MakeConstSpan(*inferred) == outputs) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(
        "micro_batches: '", op.path, "' (", op.kind->name(), ") does not fit its signature",
        inferred.ok() ? "" : ": ", inferred.status().message()));
  }

  // Called once for each micro-batch, right after a value's op has run in it.
  void Gather(ValueId old, int64_t micro_batch, Phase phase) {
    const Value& value = graph_.value(old);
    const AxisLayout& layout = layouts_.values[old];
    const bool last = micro_batch == micro_batches_ - 1;
    if (layout.split()) {
      if (!last) return;
      full_[old] = Append("concat", value.path, value.type, local_[old],
                          {{"axis", static_cast<int64_t>(layout.dim)}}, phase, value.role);
      copied_values_.push_back({full_[old], old, kNone});
    } else if (micro_batch == 0) {
      full_[old] = local_[old][0];
    } else {
      const Role role = value.role == Role::kGradient ? Role::kGradient : Role::kActivation;
      std::string path = last ? value.path : absl::StrCat(value.path, "@0..", micro_batch);
      full_[old] = Accumulate(layout.reduction, full_[old], local_[old][micro_batch],
                              std::move(path), phase, last ? value.role : role);
      copied_values_.push_back({full_[old], old, kNone});
    }
  }

  ValueId Accumulate(AxisLayout::Reduction reduction, ValueId sum, ValueId term, std::string path,
                     Phase phase, Role role) {
    const TensorType type = out_.value(sum).type;
    const auto append = [&](absl::string_view kind, absl::string_view suffix, ValueId a,
                            ValueId b) {
      std::vector<ValueId> inputs =
          b == kNone ? std::vector<ValueId>{a} : std::vector<ValueId>{a, b};
      return Append(kind, absl::StrCat(path, suffix), type, std::move(inputs), {}, phase, role);
    };
    switch (reduction) {
      case AxisLayout::Reduction::kSum:
        return append("add", "", sum, term);
      case AxisLayout::Reduction::kMax:
        return append("maximum", "", sum, term);
      case AxisLayout::Reduction::kLogSumExp: {
        // max + log(exp(sum - max) + exp(term - max)): neither power overflows.
        const ValueId max = append("maximum", ".max", sum, term);
        const ValueId a = append("exp", ".a", append("subtract", ".a_log", sum, max), kNone);
        const ValueId b = append("exp", ".b", append("subtract", ".b_log", term, max), kNone);
        const ValueId log = append("log", ".log", append("add", ".powers", a, b), kNone);
        return append("add", "", max, log);
      }
    }
    return kNone;
  }

  const Graph& graph_;
  const MicroBatchLayouts& layouts_;
  const int64_t micro_batches_;
  const absl::flat_hash_set<std::string> separate_;  // paths of inputs
  Graph out_;
  std::vector<ValueId> full_;                // by old value; kNone until it is there
  std::vector<std::vector<ValueId>> local_;  // by old value: of each micro-batch so far
  std::vector<std::vector<OpId>> ops_;  // by old op: of each micro-batch so far, or the only one
  absl::flat_hash_map<std::pair<ValueId, int>, std::vector<ValueId>> parts_;
  std::vector<Copy> copied_values_, copied_ops_;
};

}  // namespace

absl::StatusOr<Graph> SplitIntoMicroBatches(const Graph& graph, int64_t micro_batches,
                                            absl::Span<const std::string> separate) {
  if (micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro_batches: ", micro_batches, "; it must be at least 1"));
  }
  if (micro_batches == 1) return graph;
  ASSIGN_OR_RETURN(const MicroBatchLayouts layouts, LayOutMicroBatches(graph, micro_batches));
  return MicroBatchWriter(graph, layouts, micro_batches, separate).Write();
}

}  // namespace tessera
