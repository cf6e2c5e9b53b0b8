#include "absl/container/flat_hash_map.h"
#include "core/graph/attributes_proto.h"
#include "core/ids/repeated_field.h"
#include "core/layout/layout_proto.h"
#include "core/program/proto/program_proto.h"

namespace tessera {
namespace {

void Set(const ProgramValue& value, ProgramProto::Value* message) {
  message->set_path(value.path);
  *message->mutable_type() = ToProto(value.type);
  AppendNumbers(value.strides, message->mutable_strides());
  message->set_role(static_cast<ProgramProto::Role>(value.role));
  message->set_buffer(value.buffer.index());
  message->set_offset(value.offset);
  message->set_within(value.within.index());
  message->set_part(value.part.index());
  message->set_sliced_from(value.sliced_from.index());
  message->set_gradient_of(value.gradient_of.index());
  message->set_flat(value.flat.index());
  message->set_packed(value.packed);
}

void Set(const KernelRequest& request, KernelRequestProto* message) {
  message->set_op(request.op);
  *message->mutable_attributes() = ToProto(request.attributes);
  for (const TensorType& type : request.inputs) *message->add_inputs() = ToProto(type);
  for (const TensorType& type : request.outputs) *message->add_outputs() = ToProto(type);
  for (const Epilogue& epilogue : request.epilogues) {
    KernelRequestProto::Epilogue& added = *message->add_epilogues();
    added.set_op(epilogue.op);
    *added.mutable_attributes() = ToProto(epilogue.attributes);
    added.set_extra_inputs(epilogue.extra_inputs);
    added.set_output(epilogue.output);
  }
  message->set_threads(request.threads);
}

void Set(const CollectiveRequest& request, ProgramProto::Collective* message) {
  message->set_operation(static_cast<ProgramProto::Collective::Operation>(request.operation));
  message->set_elements(request.elements);
  message->set_dtype(static_cast<TypeProto::DType>(request.dtype));
  message->set_reduction(static_cast<ProgramProto::Collective::Reduction>(request.reduction));
  for (const std::string& axis : request.mesh_axes) message->add_mesh_axes(axis);
  message->set_shift(request.shift);
}

void Set(const PartRule& part, const Mesh& mesh, ProgramProto::Part* message) {
  AppendNumbers(part.global, message->mutable_global());
  AppendNumbers(part.start, message->mutable_start());
  AppendNumbers(part.extent, message->mutable_extent());
  *message->mutable_layout() = ToProto(part.layout, mesh);
}

void Set(const FlatGroup& group, ProgramProto::FlatGroup* message) {
  for (const FlatGroup::Member& member : group.members()) {
    ProgramProto::FlatGroup::Member& added = *message->add_members();
    AppendNumbers(member.local, added.mutable_local());
    added.set_block(member.block);
  }
  message->set_ranks(group.ranks());
}

void SetFlats(const Program& program, ProgramProto* message) {
  absl::flat_hash_map<const FlatGroup*, int> numbers;
  for (const auto& group : program.FlatGroups()) {
    numbers.emplace(group.get(), message->flat_groups_size());
    Set(*group, message->add_flat_groups());
  }
  for (const FlatRule& flat : program.flats) {
    ProgramProto::Flat& added = *message->add_flats();
    added.set_group(numbers.at(flat.group.get()));
    for (const int axis : flat.axes) added.add_axes(axis);
    added.set_member(flat.member);
  }
}

void Set(const DrawRule& draw, const Mesh& mesh, ProgramProto::Draw* message) {
  message->set_path(draw.path);
  Set(draw.part, mesh, message->mutable_part());
}

void Set(const Instruction& instruction, ProgramProto::Instruction* message) {
  message->set_path(instruction.path);
  message->set_kind(static_cast<ProgramProto::Instruction::Kind>(instruction.kind));
  message->set_stream(instruction.stream.index());
  AppendIds(instruction.waits, message->mutable_waits());
  message->set_kernel(instruction.kernel.index());
  message->set_collective(instruction.collective.index());
  message->set_draw(instruction.draw.index());
  for (const std::string& path : instruction.fused_paths) message->add_fused_paths(path);
  AppendIds(instruction.inputs, message->mutable_inputs());
  AppendIds(instruction.outputs, message->mutable_outputs());
  AppendIds(instruction.after, message->mutable_after());
  message->set_workspace(instruction.workspace.index());
  message->set_phase(static_cast<ProgramProto::Instruction::Phase>(instruction.phase));
  message->set_recomputed(instruction.recomputed);
  if (instruction.block != kNone) message->set_block(instruction.block.index());
  message->set_flops(instruction.cost.flops);
  message->set_recomputed_flops(instruction.cost.recomputed_flops);
  message->set_bytes(instruction.cost.bytes);
}

void Set(const Buffer& buffer, ProgramProto::Buffer* message) {
  message->set_path(buffer.path);
  message->set_bytes(buffer.bytes);
  message->set_space(static_cast<ProgramProto::MemorySpace>(buffer.space));
  message->set_category(static_cast<ProgramProto::Category>(buffer.category));
  for (const CategoryChange& change : buffer.changes) {
    ProgramProto::Buffer::Change& added = *message->add_changes();
    added.set_first(change.first);
    added.set_category(static_cast<ProgramProto::Category>(change.category));
  }
  message->set_state(buffer.state);
  message->set_first(buffer.first);
  message->set_last(buffer.last);
  message->set_offset(buffer.offset);
}

void Set(const NamedValue& value, ProgramProto::NamedValue* message) {
  message->set_name(value.name);
  message->set_value(value.value.index());
}

}  // namespace

ProgramProto ToProto(const Program& program) {
  ProgramProto message;
  message.set_name(program.name);
  message.set_threads(program.threads);
  for (const std::string& stream : program.streams) message.add_streams(stream);
  *message.mutable_mesh() = ToProto(program.mesh);
  for (const PartRule& part : program.parts) Set(part, program.mesh, message.add_parts());
  SetFlats(program, &message);
  for (const ProgramValue& value : program.values) Set(value, message.add_values());
  for (const PlannedKernel& planned : program.kernels) {
    ProgramProto::Kernel& kernel = *message.add_kernels();
    Set(planned.request, kernel.mutable_request());
    const absl::string_view name = planned.kernel->name();
    kernel.set_kernel(name.data(), name.size());
    kernel.set_workspace_bytes(planned.workspace_bytes);
  }
  for (const CollectiveRequest& request : program.collectives) {
    Set(request, message.add_collectives());
  }
  for (const DrawRule& draw : program.draws) Set(draw, program.mesh, message.add_draws());
  for (const Instruction& instruction : program.instructions) {
    Set(instruction, message.add_instructions());
  }
  for (const Buffer& buffer : program.buffers) Set(buffer, message.add_buffers());
  for (const NamedValue& input : program.inputs) Set(input, message.add_inputs());
  for (const ProgramState& state : program.states) {
    ProgramProto::State& added = *message.add_states();
    added.set_path(state.path);
    added.set_origin(state.origin);
    added.set_role(static_cast<ProgramProto::Role>(state.role));
    added.set_input(state.input.index());
    added.set_updated(state.updated.index());
  }
  for (const NamedValue& output : program.outputs) Set(output, message.add_outputs());
  for (const MemorySpace space : kAllMemorySpaces) message.add_arenas(program.arenas[space]);
  return message;
}

}  // namespace tessera
