#include "core/plan/rewrite/in_parts.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/layout/signature_fit.h"
#include "core/plan/graph/copy_graph.h"
#include "core/plan/graph/op_signatures.h"
#include "core/status/check.h"

namespace tessera {
namespace {

// Rewrites a Graph so that some of its ops are computed in parts.
class PartsWriter {
 public:
  PartsWriter(const Graph& graph, const Table<OpId, bool>& in_parts)
      : graph_(graph),
        in_parts_(in_parts),
        out_(graph.name()),
        new_value_(graph.values().size(), kNone),
        new_op_(graph.ops().size(), kNone) {}

  Graph Write() && {
    for (const GraphInput& input : graph_.inputs()) {
      new_value_[input.value] =
          out_.AppendInput(graph_.value(input.value), input.batch_dim, input.origin);
    }
    CopyStatesAndBlocks(graph_, out_, new_value_);
    for (const OpId id : graph_.ops().ids()) in_parts_[id] ? WriteParts(id) : WriteWhole(id);
    CopyResults(
        graph_, [this](ValueId old) { return new_value_[old]; }, out_);
    CopyLinks();
    return std::move(out_);
  }

 private:
  void WriteWhole(OpId id) {
    Op op = graph_.op(id);
    for (ValueId& input : op.inputs) input = new_value_[input];
    std::vector<Value> outputs;
    for (const ValueId output : graph_.op(id).outputs) outputs.push_back(graph_.value(output));
    new_op_[id] = Append(id, std::move(op), outputs);
    for (size_t i = 0; i < outputs.size(); ++i) {
      new_value_[graph_.op(id).outputs[i]] = out_.op(new_op_[id]).outputs[i];
    }
  }

  void WriteParts(OpId id) {
    const Op& whole = graph_.op(id);
    const OpParts parts = PartsOf(graph_, whole);
    Table<ValueId, ValueId> written(parts.graph.values().size(), kNone);
    for (size_t i = 0; i < whole.inputs.size(); ++i) {
      written[parts.graph.inputs()[i].value] = new_value_[whole.inputs[i]];
    }
    for (const OpId part : parts.graph.ops().ids()) {
      const Op& recorded = parts.graph.op(part);
      Op op = whole;
      op.kind = recorded.kind;
      op.attributes = recorded.attributes;
      op.part = part.index();
      op.inputs.clear();
      for (const ValueId input : recorded.inputs) op.inputs.push_back(written[input]);
      std::vector<Value> outputs;
      for (const ValueId output : recorded.outputs) {
        outputs.push_back(ValueOf(parts, output, whole));
      }
      SetRegions(op, absl::MakeSpan(outputs));
      op.path = outputs[0].path;
      const OpId appended = Append(id, std::move(op), outputs);
      for (size_t i = 0; i < outputs.size(); ++i) {
        written[recorded.outputs[i]] = out_.op(appended).outputs[i];
      }
    }
    for (size_t i = 0; i < whole.outputs.size(); ++i) {
      new_value_[whole.outputs[i]] = written[parts.outputs[i]];
    }
  }

  // Returns the description of a value that a part of `whole` computes.
  Value ValueOf(const OpParts& parts, ValueId value, const Op& whole) const {
    const auto output = absl::c_find(parts.outputs, value);
    if (output != parts.outputs.end()) {
      return graph_.value(whole.outputs[output - parts.outputs.begin()]);
    }
    Value between;
    between.type = parts.graph.value(value).type;
    between.role = graph_.value(whole.outputs[0]).role;
    const std::string path = absl::StrCat(whole.path, ".", parts.graph.value(value).path);
    between.path = path;
    for (int i = 1; !graph_.PathIsFree(between.path) || !out_.PathIsFree(between.path); ++i) {
      between.path = absl::StrCat(path, "_", i);
    }
    return between;
  }

  // Sets the regions of the values that a part of a slice of an op computes, unless they are known.
  // Where its inputs are slices, a signature says along which dimension its outputs are: logits by
  // a slice of a head's words are those of these words.
  void SetRegions(const Op& part, absl::Span<Value> outputs) const {
    std::vector<Arriving> arriving;
    const Value* sliced = nullptr;
    int dim = kNone;
    for (const ValueId input : part.inputs) {
      const Value& value = out_.value(input);
      const int split = SlicedDim(value);
      arriving.push_back(split == kNone ? AxisLayout::Broadcast() : AxisLayout::Split(split));
      if (split == kNone) continue;
      sliced = &value;
      dim = split;
    }
    if (sliced == nullptr) return;
    std::vector<TensorType> types;
    for (const Value& output : outputs) types.push_back(output.type);
    const OpSignatures use(out_, part, types);
    const std::optional<Signature> signature =
        BestSignature(use.fitted(), arriving, {.parts = 1, .even = false});
    for (size_t i = 0; signature.has_value() && i < outputs.size(); ++i) {
      const AxisLayout& layout = signature->outputs[i];
      if (outputs[i].region != nullptr || !layout.split()) continue;
      const Shape& shape = outputs[i].type.shape;
      Region region = {Shape(shape.size(), 0), shape};
      region.start[layout.dim] = sliced->region->start[dim];
      region.global[layout.dim] = sliced->region->global[dim];
      outputs[i].region = std::make_shared<const Region>(std::move(region));
    }
  }

  // Returns the dimension along which a value is a slice, or kNone.
  static int SlicedDim(const Value& value) {
    if (value.region == nullptr) return kNone;
    const auto [slice, all] = absl::c_mismatch(value.type.shape, value.region->global);
    return slice == value.type.shape.end() ? kNone
                                           : static_cast<int>(slice - value.type.shape.begin());
  }

  // Appends an op that is `old` or a part of it.
  OpId Append(OpId old, Op op, absl::Span<const Value> outputs) {
    op.after.clear();
    for (const OpId before : graph_.op(old).after) {
      for (const OpId id : out_.ops().ids()) {
        if (old_op_[id] == before) op.after.push_back(id);
      }
    }
    old_op_.push_back(old);
    return out_.AppendOp(std::move(op), outputs);
  }

  // Copies what ops and values are the gradients of. Nothing is the gradient of a part.
  void CopyLinks() {
    CopyGradientLinksOfValues(graph_, new_value_, out_);
    for (const OpId id : out_.ops().ids()) {
      const OpId forward = graph_.op(old_op_[id]).gradient_of;
      if (forward != kNone && new_op_[forward] != kNone) out_.SetGradientOf(id, new_op_[forward]);
    }
  }

  const Graph& graph_;
  const Table<OpId, bool>& in_parts_;
  Graph out_;
  Table<ValueId, ValueId> new_value_;
  Table<OpId, OpId> new_op_;  // kNone: it is computed in parts
  Table<OpId, OpId> old_op_;  // by op of `out_`
};

}  // namespace

OpParts PartsOf(const Graph& graph, const Op& op) {
  OpParts parts{Graph(op.path), {}};
  std::vector<Tensor> inputs;
  for (const ValueId input : op.inputs) {
    inputs.push_back(
        parts.graph.Input(absl::StrCat("input_", inputs.size()), graph.value(input).type));
  }
  for (const Tensor& output : op.kind->RecordInParts(inputs, op.attributes)) {
    parts.outputs.push_back(output.id());
  }
  TESSERA_CHECK(parts.graph.status().ok()) << parts.graph.status();
  return parts;
}

Graph WriteInParts(const Graph& graph, const Table<OpId, bool>& in_parts) {
  return PartsWriter(graph, in_parts).Write();
}

}  // namespace tessera
