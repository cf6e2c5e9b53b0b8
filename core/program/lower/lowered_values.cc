#include "core/program/lower/lowered_values.h"

#include <algorithm>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/layout/mesh_layout.h"
#include "core/plan/graph/parameter_cast.h"
#include "core/program/stream_names.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera {

namespace {

// Returns whether two values are the same elements of recorded tensors, and not all of them.
bool IsSameRegion(const SharedRegion& a, const SharedRegion& b) {
  if (a == nullptr || b == nullptr) return false;
  return a == b || (a->start == b->start && a->global == b->global);
}

}  // namespace

LoweredValues::LoweredValues(const Graph& graph, ValueLayouts layouts, const FlatStorage& storage,
                             const Table<OpId, bool>& needed, RedistributionFinder& finder,
                             const KernelCatalogue& catalogue, ProgramBuilder* builder)
    : graph_(graph),
      layouts_(std::move(layouts)),
      storage_(storage),
      catalogue_(catalogue),
      builder_(*builder),
      redistributor_(builder, finder),
      flat_(builder, &storage),
      made_(graph.values().size(), kNone) {
  // A state and its gradients hold the same part of the recorded state.
  is_part_.assign(graph.values().size(), false);
  for (const GraphInput& input : graph.inputs()) is_part_[input.value] = true;
  for (const Op& op : graph.ops()) {
    for (ValueId output : op.outputs) is_part_[output] = op.slice != kNone;
  }
  for (const State& state : graph.states()) {
    if (state.region == nullptr) continue;
    if (state.input != kNone) is_part_[state.input] = true;
    is_part_[state.updated] = true;
  }
  for (const ValueId id : graph.values().ids()) {
    const ValueId parameter = graph.values()[id].complete_gradient_of;
    if (parameter != kNone && is_part_[parameter]) is_part_[id] = true;
  }
  for (const Op& op : graph.ops()) {
    if (IsParameterCast(graph, op)) {  // a slice of a parameter in fewer bits
      is_part_[op.outputs[0]] = is_part_[op.inputs[0]];
    } else if (op.phase == Phase::kBackward && op.slice == kNone) {
      // Such as the gradient of a slice in more bits, and its sum over micro-batches.
      const ValueId input = op.inputs.empty() ? ValueId() : op.inputs[0];
      const bool same = input != kNone && is_part_[input] &&
                        IsSameRegion(graph.value(input).region, graph.value(op.outputs[0]).region);
      if (same) is_part_[op.outputs[0]] = true;
    }
  }
  for (const GraphOutput& output : graph.outputs()) results_.insert(output.value);
  for (const State& state : graph.states()) {
    results_.insert(state.updated);
    if (state.updated != state.input) updated_.insert(state.updated);
  }
  ListReads(needed);
}

void LoweredValues::ListReads(const Table<OpId, bool>& needed) {
  reads_.resize(graph_.values().size());
  const auto add = [this](ValueId value, LayoutId layout) {
    std::vector<LayoutId>& reads = reads_[value];
    if (layout == layouts_.MadeIn(value) || absl::c_linear_search(reads, layout)) return;
    reads.push_back(layout);
    if (!layouts_.flat(layout) || !IsReducedInGroup(value)) return;
    const FlatPosition& position = *layouts_.PositionOf(value);
    Gradients& gradients = gradients_[GradientSetOf(value)];
    gradients.members.resize(storage_.group(position.group)->num_members(), kNone);
    ValueId& member = gradients.members[position.member];
    if (member == value) return;
    TESSERA_CHECK(member == kNone) << graph_.value(value).path;
    member = value;
    ++gradients.missing;
  };
  last_micro_batch_.assign(storage_.num_groups(), kNone);
  for (const OpId id : graph_.ops().ids()) {
    const std::vector<ValueId>& inputs = graph_.ops()[id].inputs;
    const absl::Span<const LayoutId> read = layouts_.ReadIn(id);
    for (size_t i = 0; needed[id] && i < inputs.size(); ++i) {
      if (!layouts_.flat(read[i]) || !IsReducedInGroup(inputs[i])) continue;
      const OpId producer = graph_.value(inputs[i]).producer;
      int32_t& last = last_micro_batch_[layouts_.PositionOf(inputs[i])->group];
      last = std::max(last, graph_.op(producer).micro_batch);
    }
  }
  // A value without a producer that is made flat is a state.
  const auto add_gathered = [this](ValueId value, LayoutId layout) {
    const bool state = graph_.value(value).producer == kNone;
    if (!state || !layouts_.flat(layouts_.MadeIn(value)) || layouts_.flat(layout)) return;
    gathered_in_update_[layouts_.PositionOf(value)->group].push_back({value, layout});
  };
  for (const OpId id : graph_.ops().ids()) {
    const std::vector<ValueId>& inputs = graph_.ops()[id].inputs;
    const absl::Span<const LayoutId> read = layouts_.ReadIn(id);
    const bool update = graph_.ops()[id].phase == Phase::kUpdate;
    for (size_t i = 0; needed[id] && i < inputs.size(); ++i) {
      add(inputs[i], read[i]);
      if (update) add_gathered(inputs[i], read[i]);
    }
  }
  for (size_t i = 0; i < graph_.states().size(); ++i) {
    add(graph_.states()[i].updated, layouts_.StoredIn(i));
  }
  for (const GraphOutput& output : graph_.outputs()) {
    add(output.value, ValueLayouts::kBroadcast);
    add_gathered(output.value, ValueLayouts::kBroadcast);
  }
  ListFullParameters(needed);
}

// --- Types ---------------------------------------------------------------------------------------

TensorType LoweredValues::LocalType(ValueId id, LayoutId layout) const {
  return {catalogue_.Realize(graph_.value(id).type.dtype), layouts_.LocalShapeOf(id, layout)};
}

PartRule LoweredValues::TensorOf(ValueId id) const {
  const Value& value = graph_.value(id);
  const int num_axes = builder_.program().mesh.num_axes();
  if (!is_part_[id] || value.region == nullptr) return PartRule::All(value.type.shape, num_axes);
  return {value.region->global, value.region->start, value.type.shape, MeshLayout(num_axes)};
}

// Returns the id of the part rule of a value. For a flat value, this is its part over the other
// axes, which determines the elements that a rank has, whether or not they are partial sums.
PartId LoweredValues::PartOf(ValueId id, LayoutId layout) {
  const bool is_all = !is_part_[id] || graph_.value(id).region == nullptr;
  if (is_all && layout == ValueLayouts::kBroadcast) return kNone;
  MeshLayout held = layouts_.layout(layout);
  for (int axis = 0; layouts_.flat(layout) && axis < held.num_axes(); ++axis) {
    if (held.axis(axis).partial()) held = held.With(axis, AxisLayout::Broadcast());
  }
  return builder_.FindOrAddPart(TensorOf(id).With(std::move(held)));
}

LocalOp LoweredValues::Localized(OpId id) const {
  const Op& op = graph_.op(id);
  const absl::Span<const LayoutId> read = layouts_.ReadIn(id);
  LocalOp local;
  local.inputs.reserve(op.inputs.size());
  local.outputs.reserve(op.outputs.size());
  bool everywhere = true;
  const auto add = [&](ValueId value, LayoutId layout, std::vector<TensorType>& types) {
    types.push_back({graph_.value(value).type.dtype, layouts_.LocalShapeOf(value, layout)});
    everywhere = everywhere && layout == ValueLayouts::kBroadcast;
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) add(op.inputs[i], read[i], local.inputs);
  for (ValueId output : op.outputs) add(output, layouts_.MadeIn(output), local.outputs);
  local.attributes = op.attributes;
  if (everywhere) return local;
  absl::InlinedVector<Region, 4> inputs, outputs;
  const auto add_region = [&](ValueId value, LayoutId layout, auto& regions) {
    Shape global = graph_.value(value).type.shape;
    if (layouts_.flat(layout)) global = {NumElements(global)};
    Region& region = regions.emplace_back();
    region.start = Shape(global.size(), 0);
    region.global = std::move(global);
  };
  for (size_t i = 0; i < op.inputs.size(); ++i) add_region(op.inputs[i], read[i], inputs);
  for (ValueId output : op.outputs) add_region(output, layouts_.MadeIn(output), outputs);
  const LocalUse use = {local.inputs, local.outputs, inputs, outputs};
  local.attributes = op.kind->LocalAttributes(op.attributes, use);
  return local;
}

absl::Status LoweredValues::CheckOutputs(OpId id) const {
  const Op& op = graph_.op(id);
  for (const ValueId output : op.outputs) {
    const LayoutId layout = layouts_.MadeIn(output);
    if (layout == ValueLayouts::kBroadcast) continue;
    const absl::Status fits = CheckLayout(layouts_.layout(layout), graph_.value(output).type.shape,
                                          builder_.program().mesh);
    if (fits.ok()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "operator '", op.path, "' in graph '", graph_.name(), "' makes '",
        graph_.value(output).path, "': ", fits.message(),
        "; choose another signature for the operator along one of these axes, such as 'B'"));
  }
  return absl::OkStatus();
}

// --- Making values -------------------------------------------------------------------------------

void LoweredValues::SetMade(ValueId id, ProgramValueId value) {
  made_[id] = value;
  if (results_.contains(id)) builder_.MarkAsResult(value);
}

FlatLowering::Member LoweredValues::DescribeMember(ValueId id, LayoutId layout) {
  const Value& value = graph_.value(id);
  return {value.path, catalogue_.Realize(value.type.dtype), value.role, PartOf(id, layout)};
}

void LoweredValues::BeginPeriod(Phase phase, int32_t micro_batch) {
  builder_.set_phase(phase);
  period_ =
      periods_.try_emplace({phase, micro_batch}, static_cast<int>(periods_.size())).first->second;
}

void LoweredValues::AddInput(ValueId id) { AddAsMade(id, /*updated=*/false); }

ProgramValueId LoweredValues::AddOutput(ValueId id) {
  if (layouts_.flat(layouts_.MadeIn(id)) && !updated_.contains(id)) {
    SetMade(id, flat_.AddValue(DescribeMember(id, layouts_.MadeIn(id)), *layouts_.PositionOf(id)));
  } else {
    AddAsMade(id, /*updated=*/true);
  }
  const ValueId parameter = graph_.value(id).complete_gradient_of;
  if (parameter != kNone) builder_.SetGradientOf(made_[id], made_[parameter]);
  return made_[id];
}

void LoweredValues::AddAsMade(ValueId id, bool updated) {
  const LayoutId layout = layouts_.MadeIn(id);
  const Value& value = graph_.value(id);
  SetMade(id, layouts_.flat(layout)
                  ? flat_.AddState(DescribeMember(id, layout), *layouts_.PositionOf(id), updated)
                  : builder_.AddTensor(value.path, LocalType(id, layout), value.role,
                                       PartOf(id, layout)));
}

absl::StatusOr<std::vector<ProgramValueId>> LoweredValues::FindOrAddViews(OpId id,
                                                                          ProgramValueId base) {
  const auto [it, inserted] = views_.try_emplace({id, base});
  std::vector<ProgramValueId>& made = it->second;
  if (!inserted) return made;
  const Op& op = graph_.op(id);
  const LocalOp local = Localized(id);
  ASSIGN_OR_RETURN(base, builder_.EnsurePadded(base));
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const int output = static_cast<int>(i);
    std::optional<ViewPlacement> placement =
        op.kind->View(local.types(), output, builder_.value(base).strides);
    if (!placement.has_value()) {
      ASSIGN_OR_RETURN(base, builder_.EnsureRowMajor(base));
      placement = op.kind->View(local.types(), output, builder_.value(base).strides);
      TESSERA_CHECK(placement.has_value()) << op.path;
    }
    const ValueId value = op.outputs[i];
    const LayoutId layout = layouts_.MadeIn(value);
    made.push_back(builder_.AddView(graph_.value(value).path, LocalType(value, layout), base,
                                    *placement, graph_.value(value).role, PartOf(value, layout)));
  }
  return made;
}

absl::Status LoweredValues::AddViews(OpId id) {
  const Op& op = graph_.op(id);
  ASSIGN_OR_RETURN(const ProgramValueId base, BringToLayout(op.inputs[0], layouts_.ReadIn(id)[0]));
  ASSIGN_OR_RETURN(const std::vector<ProgramValueId> views, FindOrAddViews(id, base));
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    SetMade(op.outputs[i], views[i]);
    if (Repeats(op.inputs[0])) repeated_views_[op.outputs[i]] = base;
  }
  return absl::OkStatus();
}

// --- Layouts -------------------------------------------------------------------------------------

bool LoweredValues::IsParameter(ValueId id) const {
  const Value& value = graph_.value(id);
  if (value.producer != kNone) return IsParameterCast(graph_, graph_.op(value.producer));
  return value.role == Role::kParameter;
}

int LoweredValues::PeriodOf(ValueId id) const {
  if (!Repeats(id)) return FlatLowering::kStep;
  while (!IsParameter(id)) id = graph_.op(graph_.value(id).producer).inputs[0];
  return IsGatheredOnce(layouts_.PositionOf(id)) ? FlatLowering::kStep : period_;
}

absl::string_view LoweredValues::StreamOf(ValueId id) const {
  if (Repeats(id) || (updated_.contains(id) && layouts_.flat(layouts_.MadeIn(id)))) {
    return kParameterStream;
  }
  return graph_.value(id).complete_gradient_of == kNone ? kActivationStream : kGradientStream;
}

absl::StatusOr<Operands> LoweredValues::InputsOf(OpId id) {
  const Op& op = graph_.op(id);
  Operands inputs;
  inputs.reserve(op.inputs.size());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    ASSIGN_OR_RETURN(const ProgramValueId input,
                     BringToLayout(op.inputs[i], layouts_.ReadIn(id)[i]));
    inputs.push_back(input);
  }
  RETURN_IF_ERROR(GatherBeforeUpdate(id));
  return inputs;
}

absl::StatusOr<ProgramValueId> LoweredValues::BringToMadeLayout(ValueId id) {
  const auto view = repeated_views_.find(id);
  if (view == repeated_views_.end()) return made_[id];
  const Value& value = graph_.value(id);
  const OpId op = value.producer;
  const ProgramValueId first_base = view->second;
  ASSIGN_OR_RETURN(const ProgramValueId base,
                   BringToLayout(graph_.op(op).inputs[0], layouts_.ReadIn(op)[0]));
  if (base == first_base) return made_[id];
  ASSIGN_OR_RETURN(const std::vector<ProgramValueId> views, FindOrAddViews(op, base));
  return views[value.output_index];
}

absl::StatusOr<ProgramValueId> LoweredValues::BringToLayout(ValueId id, LayoutId layout) {
  if (layout == layouts_.MadeIn(id)) return BringToMadeLayout(id);
  const std::vector<Arrangement>& known = arranged_[id];
  for (const Arrangement& other : known) {
    if (other.layout == layout && other.period == PeriodOf(id)) return other.value;
  }
  const absl::StatusOr<ProgramValueId> value = EmitRedistribution(id, layout);
  if (absl::IsInvalidArgument(value.status())) return Unreadable(id, value.status());
  RETURN_IF_ERROR(value.status());
  arranged_[id].push_back({layout, PeriodOf(id), *value});
  if (results_.contains(id)) builder_.MarkAsResult(*value);
  return *value;
}

absl::Status LoweredValues::Unreadable(ValueId id, const absl::Status& status) const {
  const Value& value = graph_.value(id);
  std::string makers = "its store";
  if (value.producer != kNone) {
    makers = absl::StrCat("operator '", graph_.op(value.producer).path, "', which makes it,");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", value.path, "' in graph '", graph_.name(), "': ", status.message(),
                   "; choose another layout for ", makers, " or for the operators that read it"));
}

absl::StatusOr<ProgramValueId> LoweredValues::EmitRedistribution(ValueId id, LayoutId layout) {
  if (layouts_.flat(layout)) return EmitAsFlat(id, layout);
  const PartRule tensor = TensorOf(id);
  const MeshLayout to = layouts_.layout(layout);
  LayoutId from = layouts_.MadeIn(id);
  ASSIGN_OR_RETURN(ProgramValueId value, BringToMadeLayout(id));
  if (layouts_.flat(from)) {
    from = layouts_.FindOrAdd(layouts_.layout(from));
    if (from != layout) {
      ASSIGN_OR_RETURN(value, BringToLayout(id, from));
    } else {
      const FlatPosition& position = *layouts_.PositionOf(id);
      return flat_.FindOrGather(value, position, PartOf(id, from),
                                {storage_.gathers_kept(position.group), PeriodOf(id)},
                                StreamOf(id));
    }
  }
  ASSIGN_OR_RETURN(double price, redistributor_.Seconds(value, tensor, layouts_.layout(from), to));
  for (const Arrangement& other : arranged_[id]) {
    if (layouts_.flat(other.layout) || other.period != PeriodOf(id)) continue;
    const absl::StatusOr<double> seconds =
        redistributor_.Seconds(other.value, tensor, layouts_.layout(other.layout), to);
    if (!seconds.ok() || *seconds >= price) continue;
    price = *seconds;
    from = other.layout;
    value = other.value;
  }
  return redistributor_.Redistribute(value, tensor, layouts_.layout(from), to, StreamOf(id));
}

bool LoweredValues::Completes(LayoutId from, LayoutId to) const {
  const MeshLayout& before = layouts_.layout(from);
  const MeshLayout& after = layouts_.layout(to);
  for (int axis = 0; axis < before.num_axes(); ++axis) {
    if (before.axis(axis).partial() && !after.axis(axis).partial()) return true;
  }
  return false;
}

absl::Status LoweredValues::CompleteOutput(ValueId id) {
  if (reads_.empty()) return absl::OkStatus();
  const bool flat = layouts_.flat(layouts_.MadeIn(id));
  bool reduced_in_group = false;
  for (const LayoutId layout : reads_[id]) {
    if (layouts_.flat(layout) && IsReducedInGroup(id)) {
      reduced_in_group = true;
    } else if ((layouts_.flat(layout) && !flat) || Completes(layouts_.MadeIn(id), layout)) {
      RETURN_IF_ERROR(BringToLayout(id, layout).status());
    }
  }
  RETURN_IF_ERROR(CompleteUpdate(id));
  if (!reduced_in_group) return absl::OkStatus();
  const GradientSet part = GradientSetOf(id);
  Gradients& gradients = gradients_[part];
  if (--gradients.missing > 0) return absl::OkStatus();
  return ReduceGradients(part.first, gradients);
}

}  // namespace tessera
