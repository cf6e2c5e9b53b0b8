// The part of LoweredValues for members of flat groups: gradients that are reduced together, values
// that are computed once for all members, and parameters that are gathered after their update.
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/plan/graph/parameter_cast.h"
#include "core/program/lower/lowered_values.h"
#include "core/status/status_macros.h"

namespace tessera {

LoweredValues::GradientSet LoweredValues::GradientSetOf(ValueId gradient) const {
  const int group = layouts_.PositionOf(gradient)->group;
  const int32_t micro_batch = graph_.op(graph_.value(gradient).producer).micro_batch;
  return {group, micro_batch == kNone ? last_micro_batch_[group] : micro_batch};
}

bool LoweredValues::IsReducedInGroup(ValueId id) const {
  return graph_.value(id).complete_gradient_of != kNone && !layouts_.flat(layouts_.MadeIn(id));
}

bool LoweredValues::IsOnGroup(OpId id) const {
  const Op& op = graph_.op(id);
  return layouts_.flat(layouts_.MadeIn(op.outputs[0])) &&
         (op.phase == Phase::kBackward || IsParameterCast(graph_, op));
}

bool LoweredValues::IsGatheredOnce(const FlatPosition* position) const {
  return position != nullptr && storage_.gathers_kept(position->group) ==
                                    static_cast<int>(storage_.axes(position->group).size());
}

bool LoweredValues::ExistsIn(ValueId id, LayoutId layout) {
  if (layouts_.MadeIn(id) == layout) return made_[id] != kNone;
  return absl::c_any_of(arranged_[id],
                        [&](const Arrangement& other) { return other.layout == layout; });
}

absl::Status LoweredValues::AddOnGroup(OpId id) {
  const Op& op = graph_.op(id);
  const ValueId output = op.outputs[0];
  const FlatPosition& position = *layouts_.PositionOf(output);
  std::vector<ProgramValueId> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const LayoutId layout = layouts_.ReadIn(id)[i];
    if (!ExistsIn(op.inputs[i], layout)) {
      waiting_[position.group].push_back(id);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const ProgramValueId input, BringToLayout(op.inputs[i], layout));
    inputs.push_back(input);
  }
  const absl::string_view kind = op.kind->name();
  ASSIGN_OR_RETURN(
      const ProgramValueId value,
      flat_.FindOrCompute({std::string(kind.data(), kind.size()), op.attributes}, inputs,
                          DescribeMember(output, layouts_.MadeIn(output)), position));
  SetMade(output, value);
  return CompleteOutput(output);
}

absl::Status LoweredValues::GatherBeforeUpdate(OpId id) {
  for (const ValueId output : graph_.op(id).outputs) {
    const FlatPosition* const position = layouts_.PositionOf(output);
    if (position == nullptr || !updated_.contains(output)) continue;
    const auto gathered = gathered_in_update_.find(position->group);
    if (gathered == gathered_in_update_.end()) continue;
    for (const auto& [state, layout] : gathered->second) {
      RETURN_IF_ERROR(BringToLayout(state, layout).status());
    }
    gathered_in_update_.erase(gathered);
  }
  return absl::OkStatus();
}

absl::StatusOr<ProgramValueId> LoweredValues::EmitAsFlat(ValueId id, LayoutId layout) {
  const LayoutId made = layouts_.MadeIn(id);
  if (layouts_.flat(made)) return SumFlat(id, {made, made_[id]}, layout);
  for (const Arrangement& other : arranged_[id]) {
    if (layouts_.flat(other.layout)) return SumFlat(id, {other.layout, other.value}, layout);
  }
  // The value is made in another layout, as the Plan says. Each rank has all of the member first.
  ASSIGN_OR_RETURN(const ProgramValueId full,
                   BringToLayout(id, layouts_.FindOrAdd(layouts_.layout(layout))));
  const FlatPosition& position = *layouts_.PositionOf(id);
  const FlatLowering::Member member = DescribeMember(id, layout);
  ASSIGN_OR_RETURN(const ProgramValueId range, flat_.TakeRange(full, member, position));
  if (!updated_.contains(id)) return range;
  // The update of a member is a part of the array of all.
  const ProgramValueId state = flat_.AddState(member, position, /*updated=*/true);
  RETURN_IF_ERROR(builder_.EmitCopy(range, state));
  return state;
}

absl::StatusOr<ProgramValueId> LoweredValues::SumFlat(ValueId id, const FlatValue& from,
                                                      LayoutId layout) {
  const FlatPosition& position = *layouts_.PositionOf(id);
  MeshLayout at = layouts_.layout(from.layout);
  const MeshLayout to = layouts_.layout(layout);
  ProgramValueId value = from.value;
  for (int axis = 0; axis < at.num_axes(); ++axis) {
    if (at.axis(axis) == to.axis(axis)) continue;
    if (at.axis(axis) != AxisLayout::Partial() || !to.axis(axis).broadcast()) {
      return absl::InternalError(absl::StrCat(
          graph_.value(id).path, " is a member of a flat group and cannot move from ",
          at.ToString(builder_.program().mesh), " to ", to.ToString(builder_.program().mesh)));
    }
    at = at.With(axis, to.axis(axis));
    const FlatLowering::Member member = {absl::StrCat(graph_.value(id).path, ".all_reduce"),
                                         builder_.value(value).type.dtype, graph_.value(id).role,
                                         PartOf(id, layouts_.FindOrAdd(at, /*flat=*/true))};
    ASSIGN_OR_RETURN(value, flat_.FindOrAllReduce(value, member, position, axis, StreamOf(id)));
  }
  return value;
}

absl::Status LoweredValues::ReduceGradients(int group, const Gradients& reduced_now) {
  const std::vector<ValueId>& members = reduced_now.members;
  const absl::Span<const int> axes = storage_.axes(group);
  std::vector<LayoutId> flat_layouts;  // in which they are read
  for (const ValueId id : members) {
    flat_layouts.push_back(kNone);
    if (id == kNone) continue;
    for (const LayoutId read : reads_[id]) {
      const bool first = flat_layouts.back() == kNone;
      if (layouts_.flat(read) && (first || layouts_.layout(read).partial())) {
        flat_layouts.back() = read;
      }
    }
  }
  // If all members are partial over an axis, and none stays partial over it, the parts are summed.
  // A member that the group holds split over the axis is reduced to its part by itself.
  FlatLowering::Gradients gradients;
  for (int other = 0; other < builder_.program().mesh.num_axes(); ++other) {
    bool partial = !absl::c_linear_search(axes, other), stays = false;
    for (size_t m = 0; m < members.size(); ++m) {
      if (members[m] == kNone) continue;
      const AxisLayout& made = layouts_.layout(layouts_.MadeIn(members[m])).axis(other);
      const AxisLayout& read = layouts_.layout(flat_layouts[m]).axis(other);
      partial = partial && made == AxisLayout::Partial() && !read.split();
      stays = stays || read.partial();
    }
    if (!partial) continue;
    if (!stays) {
      gradients.other_axes.push_back(other);
      continue;
    }
    for (LayoutId& layout : flat_layouts) {
      if (layout == kNone) continue;
      layout = layouts_.FindOrAdd(layouts_.layout(layout).With(other, AxisLayout::Partial()),
                                  /*flat=*/true);
    }
  }
  absl::string_view stream;
  for (size_t m = 0; m < members.size(); ++m) {
    const ValueId id = members[m];
    gradients.values.push_back(kNone);
    gradients.parts.push_back(kNone);
    if (id == kNone) continue;
    gradients.parts.back() = PartOf(id, flat_layouts[m]);
    MeshLayout layout = layouts_.layout(flat_layouts[m]);
    for (const int axis : axes) layout = layout.With(axis, AxisLayout::Partial());
    for (const int other : gradients.other_axes) layout = layout.With(other, AxisLayout::Partial());
    ASSIGN_OR_RETURN(gradients.values.back(),
                     BringToLayout(id, layouts_.FindOrAdd(std::move(layout))));
    gradients.parameter = made_[graph_.value(id).complete_gradient_of];
    stream = StreamOf(id);
  }
  ASSIGN_OR_RETURN(const std::vector<ProgramValueId> reduced,
                   flat_.Reduce(group, gradients, stream));
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m] == kNone) continue;
    arranged_[members[m]].push_back({flat_layouts[m], PeriodOf(members[m]), reduced[m]});
  }
  std::vector<OpId> waiting;
  std::swap(waiting, waiting_[group]);
  for (const OpId id : waiting) RETURN_IF_ERROR(AddOnGroup(id));
  return absl::OkStatus();
}

void LoweredValues::ListFullParameters(const Table<OpId, bool>& needed) {
  Table<ValueId, int> group_of(graph_.values().size(), kNone);  // of input values, and their views
  absl::flat_hash_map<int, FullParameters> groups;
  for (size_t i = 0; i < graph_.states().size(); ++i) {
    const State& state = graph_.states()[i];
    const FlatPosition* const position = layouts_.PositionOf(state.updated);
    if (state.role != Role::kParameter || state.input == kNone || position == nullptr ||
        layouts_.flat(layouts_.StoredIn(i))) {
      continue;
    }
    FullParameters& group = groups[position->group];
    const int members = storage_.group(position->group)->num_members();
    group.inputs.resize(members, kNone);
    group.updated.resize(members, kNone);
    group.inputs[position->member] = state.input;
    group_of[state.input] = position->group;
    if (state.updated == state.input) continue;
    group.updated[position->member] = state.updated;
    ++group.missing;
    // If each member is updated in full, as the Plan says, there is nothing to gather.
    if (layouts_.flat(layouts_.MadeIn(state.updated))) full_parameters_[position->group];
  }
  for (auto& [number, group] : full_parameters_) group = std::move(groups[number]);
  if (full_parameters_.empty()) return;
  const auto read = [&](ValueId value, OpId reader) {
    const auto group = full_parameters_.find(group_of[value]);
    if (group != full_parameters_.end()) group->second.last_reader = reader;
  };
  for (const OpId id : graph_.ops().ids()) {
    const Op& op = graph_.op(id);
    for (const ValueId input : op.inputs) {
      if (needed[id] && !op.kind->is_view()) read(input, id);
      if (!op.kind->is_view() || group_of[input] == kNone) continue;
      for (const ValueId output : op.outputs) group_of[output] = group_of[input];
    }
  }
  for (const GraphOutput& output : graph_.outputs()) read(output.value, graph_.ops().end_id());
  for (const State& state : graph_.states()) {
    if (state.updated != state.input) read(state.updated, graph_.ops().end_id());
  }
}

absl::Status LoweredValues::CompleteUpdate(ValueId id) {
  const FlatPosition* const position = layouts_.PositionOf(id);
  if (position == nullptr || full_parameters_.empty()) return absl::OkStatus();
  const auto found = full_parameters_.find(position->group);
  if (found == full_parameters_.end() || found->second.updated[position->member] != id) {
    return absl::OkStatus();
  }
  if (--found->second.missing > 0) return absl::OkStatus();
  RETURN_IF_ERROR(GatherUpdated(position->group, found->second));
  // The copies wait for the gather, so they are added only when the next group is gathered.
  for (const int group : gathered_) {
    RETURN_IF_ERROR(StoreGathered(group, graph_.value(id).producer));
  }
  gathered_ = {position->group};
  return absl::OkStatus();
}

absl::Status LoweredValues::GatherUpdated(int group, const FullParameters& parameters) {
  const int members = static_cast<int>(parameters.inputs.size());
  const auto layout_of = [&](int member, bool flat) {
    return layouts_.FindOrAdd(storage_.MemberLayout(group, member), flat);
  };
  // Members that are updated in full, or not at all, are gathered with the others.
  for (int m = 0; m < members; ++m) {
    const LayoutId flat = layout_of(m, /*flat=*/true);
    const ValueId input = parameters.inputs[m], updated = parameters.updated[m];
    if (updated != kNone) {
      RETURN_IF_ERROR(BringToLayout(updated, flat).status());
    } else if (input != kNone) {
      ASSIGN_OR_RETURN(const ProgramValueId range, BringToLayout(input, flat));
      RETURN_IF_ERROR(builder_.EmitCopy(
          range, flat_.AddState(DescribeMember(input, flat), {group, m, 0}, /*updated=*/true)));
    }
  }
  for (int m = 0; m < members; ++m) {
    const ValueId updated = parameters.updated[m];
    if (updated == kNone) continue;
    RETURN_IF_ERROR(BringToLayout(updated, layout_of(m, /*flat=*/false)).status());
  }
  return absl::OkStatus();
}

absl::Status LoweredValues::StoreGathered(int group, OpId now) {
  const FullParameters& parameters = full_parameters_.at(group);
  if (parameters.last_reader > now) return absl::OkStatus();
  for (size_t m = 0; m < parameters.updated.size(); ++m) {
    const ValueId updated = parameters.updated[m];
    if (updated == kNone || !layouts_.flat(layouts_.MadeIn(updated))) continue;
    const LayoutId full = layouts_.FindOrAdd(storage_.MemberLayout(group, static_cast<int>(m)));
    for (Arrangement& gathered : arranged_[updated]) {
      if (gathered.layout != full) continue;
      const ProgramValueId input = made_[parameters.inputs[m]];
      const ProgramValueId kept =
          builder_.AddInSameBytes(input, absl::StrCat(builder_.value(input).path, ".kept"));
      RETURN_IF_ERROR(builder_.EmitCopy(gathered.value, kept));
      gathered.value = kept;
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
