#include "core/program/lower/lower_flat.h"

#include "absl/strings/str_cat.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Returns the first of some axes that one collective serves: as long as they are in the order of
// the mesh, so that the parts are in the order of the ranks.
absl::Span<const int> FirstTogether(absl::Span<const int> axes) {
  size_t count = 1;
  while (count < axes.size() && axes[count] > axes[count - 1]) ++count;
  return axes.first(count);
}

}  // namespace

ProgramValueId FlatLowering::AddTensor(const std::string& path, DType dtype, Role role, int group) {
  return builder_.AddTensor(path, {dtype, {storage_.group(group)->part()}}, role, kNone);
}

FlatRule FlatLowering::RuleOf(const FlatPosition& position) const {
  const absl::Span<const int> axes = storage_.axes(position.group);
  return {storage_.group(position.group), {axes.begin(), axes.end()}, position.member};
}

ProgramValueId FlatLowering::AddMember(const Member& member, const FlatPosition& position,
                                       ProgramValueId tensor) {
  const FlatRule rule = RuleOf(position);
  const ProgramValueId value =
      builder_.AddView(member.path, {member.dtype, {rule.LocalElements()}}, tensor,
                       ViewPlacement{0, Strides{1}}, member.role, member.part);
  builder_.program().values[value].flat = builder_.FindOrAddFlat(rule);
  return value;
}

ProgramValueId FlatLowering::AddState(const Member& member, const FlatPosition& position,
                                      bool updated) {
  const std::pair<int, int> buffer = {position.group, position.buffer};
  const std::string& path = storage_.BufferPath(position.group, position.buffer);
  const auto [it, inserted] = states_.try_emplace({buffer, updated}, kNone);
  if (inserted) {
    const auto before = states_.find({buffer, false});
    const bool in_place = updated && before != states_.end();
    it->second = in_place ? builder_.AddInSameBytes(before->second, absl::StrCat(path, ".updated"))
                          : AddTensor(path, member.dtype, member.role, position.group);
  }
  return AddMember(member, position, it->second);
}

ProgramValueId FlatLowering::AddValue(const Member& member, const FlatPosition& position) {
  return AddMember(
      member, position,
      AddTensor(absl::StrCat(member.path, ".part"), member.dtype, member.role, position.group));
}

absl::StatusOr<ProgramValueId> FlatLowering::TakeRange(ProgramValueId full, const Member& member,
                                                       const FlatPosition& position) {
  return builder_.FlatSlice(absl::StrCat(member.path, ".range"), full, RuleOf(position),
                            member.part);
}

absl::StatusOr<ProgramValueId> FlatLowering::FindOrCompute(const KernelWork& work,
                                                           absl::Span<const ProgramValueId> members,
                                                           const Member& output,
                                                           const FlatPosition& position) {
  Operands tensors;
  for (const ProgramValueId member : members) tensors.push_back(builder_.Root(member));
  std::vector<Computed>& computed = computed_[tensors];
  for (const Computed& known : computed) {
    if (known.op == work.op && known.attributes == work.attributes) {
      return AddMember(output, position, known.tensor);
    }
  }
  Instruction instruction;
  instruction.path = absl::StrCat(output.path, ".group");
  const ProgramValueId tensor =
      AddTensor(instruction.path, output.dtype, output.role, position.group);
  computed.push_back({work.op, work.attributes, tensor});
  const TensorType& type = builder_.value(tensor).type;
  instruction.cost.flops = static_cast<double>(NumElements(type.shape));
  instruction.cost.bytes = static_cast<double>(NumBytes(type));
  for (const ProgramValueId input : tensors) {
    instruction.cost.bytes += static_cast<double>(NumBytes(builder_.value(input).type));
  }
  instruction.inputs = std::move(tensors);
  instruction.outputs = {tensor};
  RETURN_IF_ERROR(builder_.EmitKernel(work, std::move(instruction)));
  return AddMember(output, position, tensor);
}

absl::StatusOr<ProgramValueId> FlatLowering::FindOrAllReduce(ProgramValueId member,
                                                             const Member& output,
                                                             const FlatPosition& position, int axis,
                                                             absl::string_view stream) {
  const ProgramValueId tensor = builder_.Root(member);
  const auto [it, inserted] = all_reduced_.try_emplace({tensor, axis}, kNone);
  if (inserted) {
    it->second = AddTensor(absl::StrCat(builder_.value(tensor).path, ".all_reduce"), output.dtype,
                           output.role, position.group);
    RETURN_IF_ERROR(builder_.EmitCollective(
        RequestOf(CollectiveOperation::kAllReduce, storage_.group(position.group)->part(),
                  output.dtype, {&axis, 1}),
        stream, tensor, it->second));
  }
  return AddMember(output, position, it->second);
}

int64_t FlatLowering::RanksOver(absl::Span<const int> axes) const {
  int64_t ranks = 1;
  for (const int axis : axes) ranks *= builder_.program().mesh.axis(axis).size;
  return ranks;
}

CollectiveRequest FlatLowering::RequestOf(CollectiveOperation operation, int64_t elements,
                                          DType dtype, absl::Span<const int> axes) const {
  CollectiveRequest request;
  request.operation = operation;
  request.elements = elements;
  request.dtype = dtype;
  for (const int axis : axes) request.mesh_axes.push_back(builder_.program().mesh.axis(axis).name);
  return request;
}

absl::StatusOr<ProgramValueId> FlatLowering::FindOrGather(ProgramValueId member,
                                                          const FlatPosition& position, PartId part,
                                                          const When& when,
                                                          absl::string_view stream) {
  const FlatGroup& group = *storage_.group(position.group);
  const DType dtype = builder_.value(member).type.dtype;
  const Role role = builder_.value(member).role;
  const absl::Span<const int> axes = storage_.axes(position.group);
  ProgramValueId tensor = builder_.Root(member);
  int64_t elements = group.part();
  // The collectives of the reduction, in reverse, and apart where what is kept begins.
  std::vector<absl::Span<const int>> gathers;
  const size_t each_phase = axes.size() - when.kept;
  for (size_t i = 0; i < axes.size(); i += gathers.back().size()) {
    gathers.push_back(
        FirstTogether(i < each_phase ? axes.subspan(i, each_phase - i) : axes.subspan(i)));
  }
  for (auto together = gathers.rbegin(); together != gathers.rend(); ++together) {
    elements *= RanksOver(*together);
    const bool kept = together->data() >= axes.data() + each_phase;
    const auto [it, inserted] = gathered_.try_emplace({tensor, kept ? kStep : when.period}, kNone);
    if (inserted) {
      it->second = builder_.AddTensor(absl::StrCat(builder_.value(tensor).path, ".all_gather"),
                                      {dtype, {elements}}, role, kNone);
      RETURN_IF_ERROR(builder_.EmitCollective(
          RequestOf(CollectiveOperation::kAllGather, elements, dtype, *together), stream, tensor,
          it->second));
    }
    tensor = it->second;
  }
  const Shape& local = group.members()[position.member].local;
  return builder_.AddPackedView(absl::StrCat(builder_.value(member).path, ".gathered"),
                                {dtype, local}, tensor, group.InGathered(position.member).begin,
                                role, part);
}

absl::StatusOr<ProgramValueId> FlatLowering::EmitAssembled(int group_number,
                                                           absl::Span<const ProgramValueId> values,
                                                           DType dtype, const std::string& path) {
  const FlatGroup& group = *storage_.group(group_number);
  const ProgramValueId assembled =
      builder_.AddTensor(path, {dtype, {group.elements()}}, Role::kGradient, kNone);
  int64_t written = 0;
  const auto fill_until = [&](int64_t end) -> absl::Status {
    if (end == written) return absl::OkStatus();
    const std::string padding = absl::StrCat(path, ".padding");
    ASSIGN_OR_RETURN(const ProgramValueId zeros,
                     builder_.EmitZeros(padding, {dtype, {end - written}}));
    RETURN_IF_ERROR(builder_.PutInto(assembled, zeros, {written, Strides{1}}, padding));
    written = end;
    return absl::OkStatus();
  };
  for (int m = 0; m < group.num_members(); ++m) {
    if (values[m] == kNone) continue;
    const FlatGroup::Range range = group.InGathered(m);
    RETURN_IF_ERROR(fill_until(range.begin));
    RETURN_IF_ERROR(builder_.PutPacked(assembled, values[m], range.begin,
                                       absl::StrCat(builder_.value(values[m]).path, ".in_group")));
    written = range.end;
  }
  RETURN_IF_ERROR(fill_until(group.elements()));
  return assembled;
}

absl::StatusOr<std::vector<ProgramValueId>> FlatLowering::Reduce(int group,
                                                                 const Gradients& gradients,
                                                                 absl::string_view stream) {
  const std::vector<ProgramValueId>& values = gradients.values;
  ProgramValueId first;
  for (const ProgramValueId value : values) {
    if (first == kNone) first = value;
  }
  TESSERA_CHECK(first != kNone);
  const DType dtype = builder_.value(first).type.dtype;
  const std::string path = absl::StrCat(builder_.value(first).path, ".group");
  ASSIGN_OR_RETURN(const ProgramValueId assembled, EmitAssembled(group, values, dtype, path));
  builder_.SetGradientOf(assembled, gradients.parameter);
  ProgramValueId reduced = assembled;
  int64_t elements = storage_.group(group)->elements();
  const absl::Span<const int> axes = storage_.axes(group);
  for (size_t begin = 0; begin < axes.size();) {
    const absl::Span<const int> together = FirstTogether(axes.subspan(begin));
    begin += together.size();
    const ProgramValueId full = reduced;
    const CollectiveRequest request =
        RequestOf(CollectiveOperation::kReduceScatter, elements, dtype, together);
    elements /= RanksOver(together);
    reduced = builder_.AddTensor(absl::StrCat(builder_.value(full).path, ".reduce_scatter"),
                                 {dtype, {elements}}, Role::kGradient, kNone);
    builder_.SetGradientOf(reduced, gradients.parameter);
    RETURN_IF_ERROR(builder_.EmitCollective(request, stream, full, reduced));
  }
  for (const int axis : gradients.other_axes) {
    const ProgramValueId part = reduced;
    reduced = AddTensor(absl::StrCat(path, ".all_reduce"), dtype, Role::kGradient, group);
    RETURN_IF_ERROR(
        builder_.EmitCollective(RequestOf(CollectiveOperation::kAllReduce,
                                          storage_.group(group)->part(), dtype, {&axis, 1}),
                                stream, part, reduced));
  }
  std::vector<ProgramValueId> members;
  for (size_t m = 0; m < values.size(); ++m) {
    if (values[m] == kNone) {
      members.push_back(kNone);
      continue;
    }
    const Member member = {absl::StrCat(builder_.value(values[m]).path, ".flat"), dtype,
                           Role::kGradient, gradients.parts[m]};
    members.push_back(AddMember(member, {group, static_cast<int>(m), 0}, reduced));
  }
  return members;
}

}  // namespace tessera
