#include "core/plan/graph/time_split_writer.h"

#include <algorithm>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/layout/mesh_layout.h"
#include "core/ops/operator_list.h"

namespace tessera {

TimeSplitWriter::TimeSplitWriter(const Graph& graph, const TimeSplit& split,
                                 TimeSplitOptions options)
    : graph_(graph),
      split_(split),
      options_(std::move(options)),
      out_(graph.name()),
      full_(graph.values().size(), kNone),
      local_(graph.values().size()),
      ops_(graph.ops().size()),
      op_axis_(graph.ops().size(), kNone) {}

// --- Gradients -----------------------------------------------------------------------------------

ValueId TimeSplitWriter::CopyIn(int axis, int64_t part, ValueId old) const {
  if (old == kNone) return kNone;
  return part != kAll && HasParts(old, axis) ? local_[old][part] : full_[old];
}

OpId TimeSplitWriter::ForwardCopyOf(const Copy<OpId>& copy) const {
  const OpId forward = graph_.op(copy.old).gradient_of;
  if (forward == kNone) return kNone;
  const std::vector<OpId>& copies = ops_[forward];
  if (copies.size() == 1) return copies[0];
  const bool same_parts = copy.part != kAll && op_axis_[forward] == copy.axis;
  return same_parts ? copies[copy.part] : kNone;
}

void TimeSplitWriter::LinkGradients() {
  for (const Copy<ValueId>& copy : copied_values_) {
    const Value& old = graph_.value(copy.old);
    out_.SetGradientOfValue(copy.id, CopyIn(copy.axis, copy.part, old.gradient_of));
    // If the target is not split, each part contributes to its gradient.
    const ValueId target = old.complete_gradient_of;
    if (target == kNone) continue;
    const ValueId full = full_[target];
    out_.SetCompleteGradientOf(copy.id,
                               full != kNone ? full : CopyIn(copy.axis, copy.part, target));
  }
  for (const Copy<OpId>& copy : copied_ops_) {
    if (const OpId forward = ForwardCopyOf(copy); forward != kNone) {
      out_.SetGradientOf(copy.id, forward);
    }
  }
}

void TimeSplitWriter::RecordCopies(OpId id, OpId old, int axis, int64_t part) {
  copied_ops_.push_back({id, old, axis, part});
  for (size_t i = 0; i < graph_.op(old).outputs.size(); ++i) {
    copied_values_.push_back({out_.op(id).outputs[i], graph_.op(old).outputs[i], axis, part});
  }
}

// --- Values --------------------------------------------------------------------------------------

std::string TimeSplitWriter::FreePath(std::string path) const {
  if (out_.PathIsFree(path)) return path;
  for (int i = 1;; ++i) {
    std::string candidate = absl::StrCat(path, "_", i);
    if (out_.PathIsFree(candidate)) return candidate;
  }
}

ValueId TimeSplitWriter::FindOrConcatFull(ValueId old) {
  const Value& value = graph_.value(old);
  if (full_[old] == kNone && !local_[old].empty() && value.producer == kNone) {
    Value like = value;
    like.role = Role::kActivation;
    full_[old] =
        AppendOpLike("concat", like, FreePath(value.path), local_[old],
                     {{"axis", static_cast<int64_t>(split_.values[old].dim)}}, Phase::kForward);
  }
  return full_[old];
}

Region TimeSplitWriter::RegionOf(ValueId old, const AxisLayout& layout, int axis, int64_t part,
                                 Shape* extent) const {
  const Shape& full = graph_.value(old).type.shape;
  *extent = full;
  Region region{Shape(full.size(), 0), full};
  if (!layout.split()) return region;
  const int64_t elements = full[layout.dim], parts = split_.axes[axis].parts();
  const int64_t largest = PartExtent(elements, layout.unit, static_cast<int>(parts));
  region.start[layout.dim] = std::min(part * largest, elements);
  (*extent)[layout.dim] = std::min(largest, elements - region.start[layout.dim]);
  return region;
}

Value TimeSplitWriter::DescribePart(ValueId old, const AxisLayout& layout, int axis, int64_t part) {
  const Value& value = graph_.value(old);
  Value result;
  result.path = absl::StrCat(value.path, split_.axes[axis].suffixes[part]);
  result.type = value.type;
  result.role = value.role == Role::kGradient ? Role::kGradient : Role::kActivation;
  result.region = value.region;
  if (!layout.split()) return result;
  Region region = RegionOf(old, layout, axis, part, &result.type.shape);
  if (value.region != nullptr) {
    const int64_t start = region.start[layout.dim];
    region = *value.region;
    region.start[layout.dim] += start;
  }
  SharedRegion& shared = regions_[{region.start, region.global}];
  if (shared == nullptr) shared = std::make_shared<const Region>(std::move(region));
  result.region = shared;
  return result;
}

BlockId TimeSplitWriter::BlockOf(const Value& value) const {
  return value.producer == kNone ? BlockId() : graph_.op(value.producer).block;
}

ValueId TimeSplitWriter::AppendOpLike(absl::string_view kind, const Value& like, std::string path,
                                      std::vector<ValueId> inputs, Attributes attributes,
                                      Phase phase) {
  Op op;
  op.kind = FindOperator(kind);
  op.path = options_.own_paths ? absl::StrCat(path, ".", kind) : path;
  op.attributes = std::move(attributes);
  op.inputs = std::move(inputs);
  op.phase = phase;
  op.block = BlockOf(like);
  Value output;
  output.path = std::move(path);
  output.type = like.type;
  output.role = like.role;
  output.region = like.region;
  const OpId id = out_.AppendOp(std::move(op), {output});
  return out_.op(id).outputs[0];
}

ValueId TimeSplitWriter::FindOrAppendSplit(ValueId old, const AxisLayout& layout, int axis,
                                           int64_t part, Phase phase) {
  const bool backward = options_.views_per_phase && phase != Phase::kForward;
  std::vector<ValueId>& parts = splits_[{old, axis, layout.dim, layout.unit, backward}];
  if (!parts.empty()) return parts[part];
  const ValueId full = FindOrConcatFull(old);
  std::vector<Value> outputs;
  std::vector<int64_t> sizes;
  for (int64_t k = 0; k < split_.axes[axis].parts(); ++k) {
    outputs.push_back(DescribePart(old, layout, axis, k));
    outputs.back().path = FreePath(std::move(outputs.back().path));
    sizes.push_back(outputs.back().type.shape[layout.dim]);
  }
  Op op;
  op.kind = FindOperator("split");
  op.block = BlockOf(graph_.value(old));
  op.path = absl::StrCat(graph_.value(old).path, ".", options_.rewriting);
  op.attributes = {{"axis", static_cast<int64_t>(layout.dim)}, {"sizes", std::move(sizes)}};
  op.inputs = {full};
  if (backward || outputs[0].role == Role::kGradient) op.phase = Phase::kBackward;
  parts = out_.op(out_.AppendOp(std::move(op), outputs)).outputs;
  for (size_t k = 0; k < parts.size(); ++k) {
    copied_values_.push_back({parts[k], old, axis, static_cast<int64_t>(k)});
  }
  return parts[part];
}

ValueId TimeSplitWriter::FindOrAppendInput(ValueId old, const AxisLayout& wanted, int axis,
                                           int64_t part, Phase phase) {
  if (wanted.broadcast()) return FindOrConcatFull(old);
  if (wanted == split_.values[old] && HasParts(old, axis)) return local_[old][part];
  return FindOrAppendSplit(old, wanted, axis, part, phase);
}

// --- Ops -----------------------------------------------------------------------------------------

void TimeSplitWriter::WriteFull(OpId old) {
  Op op = graph_.op(old);
  for (ValueId& input : op.inputs) input = FindOrConcatFull(input);
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
  RecordCopies(id, old, kNone, kAll);
  for (size_t i = 0; i < old_outputs.size(); ++i) full_[old_outputs[i]] = out_.op(id).outputs[i];
}

absl::Status TimeSplitWriter::WritePart(OpId old, absl::Span<const AxisLayout> wanted, int axis,
                                        int64_t part) {
  Op op = graph_.op(old);
  absl::InlinedVector<Region, 4> input_regions, output_regions;
  Shape extent;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    input_regions.push_back(RegionOf(op.inputs[i], wanted[i], axis, part, &extent));
    op.inputs[i] = FindOrAppendInput(op.inputs[i], wanted[i], axis, part, op.phase);
  }
  std::vector<OpId> after;
  for (OpId earlier : op.after) {
    const std::vector<OpId>& copies = ops_[earlier];
    if (op_axis_[earlier] == axis) {
      after.push_back(copies[part]);
    } else {
      after.insert(after.end(), copies.begin(), copies.end());
    }
  }
  op.after = std::move(after);
  op.path = absl::StrCat(op.path, split_.axes[axis].suffixes[part]);
  options_.mark(graph_.op(old), part, op);
  const std::vector<ValueId> old_outputs = op.outputs;
  absl::InlinedVector<Value, 2> outputs;
  absl::InlinedVector<TensorType, 2> types;
  for (ValueId output : old_outputs) {
    const AxisLayout& layout = split_.values[output];
    outputs.push_back(DescribePart(output, layout, axis, part));
    types.push_back(outputs.back().type);
    output_regions.push_back(RegionOf(output, layout, axis, part, &extent));
  }
  op.attributes = op.kind->LocalAttributes(
      op.attributes, {out_.TypesOf(op.inputs), types, input_regions, output_regions});
  absl::Status status = CheckTypes(op, types);
  if (!status.ok()) return status;
  const OpId id = out_.AppendOp(std::move(op), outputs);
  ops_[old].push_back(id);
  op_axis_[old] = axis;
  RecordCopies(id, old, axis, part);
  for (size_t i = 0; i < old_outputs.size(); ++i) {
    local_[old_outputs[i]].push_back(out_.op(id).outputs[i]);
    if (split_.gathered[old_outputs[i]]) {
      Gather(old_outputs[i], axis, part, graph_.op(old).phase);
    }
  }
  return absl::OkStatus();
}

absl::Status TimeSplitWriter::CheckTypes(const Op& op, absl::Span<const TensorType> outputs) const {
  const auto inferred = op.kind->InferTypes(out_.TypesOf(op.inputs), op.attributes);
  if (inferred.ok() && absl::MakeConstSpan(*inferred) == outputs) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(options_.rewriting, ": '", op.path, "' (",
                                          op.kind->name(), ") does not fit its signature",
                                          inferred.ok() ? "" : ": ", inferred.status().message()));
}

// Must be called once for each part, right after the value's op has run in it.
void TimeSplitWriter::Gather(ValueId old, int axis, int64_t part, Phase phase) {
  const Value& value = graph_.value(old);
  const AxisLayout& layout = split_.values[old];
  const bool last = part == split_.axes[axis].parts() - 1;
  if (layout.split()) {
    if (!last) return;
    full_[old] = AppendOpLike("concat", value, value.path, local_[old],
                              {{"axis", static_cast<int64_t>(layout.dim)}}, phase);
    copied_values_.push_back({full_[old], old, kNone, kAll});
  } else if (layout == AxisLayout::Partial() && IsHalf(value.type.dtype)) {
    AccumulateInF32(old, local_[old][part], value,
                    absl::StrCat(value.path, split_.axes[axis].sum_suffixes[part]), last, phase);
  } else if (part == 0 || layout.broadcast()) {
    full_[old] = local_[old][0];
  } else {
    Value like = value;
    if (!last && like.role != Role::kGradient) like.role = Role::kActivation;
    const std::string path =
        last ? value.path : absl::StrCat(value.path, split_.axes[axis].sum_suffixes[part]);
    full_[old] = Accumulate(layout.reduction, like, path, full_[old], local_[old][part], phase);
    copied_values_.push_back({full_[old], old, kNone, kAll});
  }
}

void TimeSplitWriter::AccumulateInF32(ValueId old, ValueId term, const Value& like,
                                      const std::string& path, bool last, Phase phase) {
  Value f32_like = like;
  f32_like.type.dtype = DType::kF32;
  ValueId& f32_sum = f32_sums_.try_emplace(old, kNone).first->second;
  const std::string& term_path = out_.value(term).path;
  term = AppendOpLike("cast", f32_like, absl::StrCat(term_path, ".f32"), {term},
                      {{"dtype", DType::kF32}}, phase);
  f32_sum = f32_sum == kNone ? term
                             : AppendOpLike("add", f32_like, absl::StrCat(path, ".f32"),
                                            {f32_sum, term}, {}, phase);
  if (!last) return;
  full_[old] = AppendOpLike("cast", like, like.path, {f32_sum},
                            {{"dtype", like.type.dtype}, {"terms", true}}, phase);
  copied_values_.push_back({full_[old], old, kNone, kAll});
}

ValueId TimeSplitWriter::Accumulate(AxisLayout::Reduction reduction, const Value& like,
                                    const std::string& path, ValueId sum, ValueId term,
                                    Phase phase) {
  const auto append = [&](absl::string_view kind, absl::string_view suffix, ValueId a, ValueId b) {
    std::vector<ValueId> inputs = b == kNone ? std::vector<ValueId>{a} : std::vector<ValueId>{a, b};
    return AppendOpLike(kind, like, absl::StrCat(path, suffix), std::move(inputs), {}, phase);
  };
  switch (reduction) {
    case AxisLayout::Reduction::kSum:
      return append("add", "", sum, term);
    case AxisLayout::Reduction::kMax:
      return append("maximum", "", sum, term);
    case AxisLayout::Reduction::kMin:
      if (like.type.dtype != DType::kU8) return append("minimum", "", sum, term);
      return AppendOpLike("select", like, path, {sum, term, sum}, {}, phase);  // both of 0 and 1
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

}  // namespace tessera
