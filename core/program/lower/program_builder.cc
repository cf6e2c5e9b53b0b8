#include "core/program/lower/program_builder.h"

#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/ops/operator_list.h"
#include "core/program/kernels/copy_instruction.h"
#include "core/status/status_macros.h"

namespace tessera {

ProgramBuilder::ProgramBuilder(std::string name, Mesh mesh, KernelChooser* chooser)
    : kernels_(chooser, &program_), rules_(&program_) {
  program_.name = std::move(name);
  program_.mesh = std::move(mesh);
  program_.threads = chooser->processor().threads;
}

void ProgramBuilder::Reserve(size_t instructions, size_t values) {
  program_.instructions.reserve(instructions);
  program_.values.reserve(values);
  program_.buffers.reserve(values);
  producer_.reserve(values);
  row_major_.reserve(values);
  kept_.reserve(values);
}

ProgramValueId ProgramBuilder::AddValue(ProgramValue value) {
  producer_.push_back(kNone);
  row_major_.push_back(false);
  kept_.push_back(false);
  return program_.values.push_back(std::move(value));
}

ProgramValueId ProgramBuilder::AddTensor(std::string path, TensorType type, Role role,
                                         PartId part) {
  Buffer buffer;
  buffer.path = path;
  buffer.bytes = NumBytes(type);
  ProgramValue value;
  value.path = std::move(path);
  value.strides = RowMajorStrides(type.shape);
  value.type = std::move(type);
  value.role = role;
  value.part = part;
  value.buffer = program_.buffers.push_back(std::move(buffer));
  return AddValue(std::move(value));
}

ProgramValueId ProgramBuilder::AddInSameBytes(ProgramValueId tensor, std::string path) {
  ProgramValue value = program_.values[tensor];
  value.path = std::move(path);
  return AddValue(std::move(value));
}

ProgramValueId ProgramBuilder::AddView(std::string path, TensorType type, ProgramValueId base,
                                       const ViewPlacement& placement, Role role, PartId part) {
  const ProgramValue& b = program_.values[base];
  ProgramValue view;
  view.path = std::move(path);
  view.type = std::move(type);
  view.strides = placement.strides;
  view.role = role;
  view.part = part;
  view.buffer = b.buffer;
  view.offset = b.offset + placement.offset * SizeOf(b.type.dtype);
  view.within = Root(base);
  if (IsSlice(base)) view.sliced_from = base;
  if (IsViewOfSlice(base)) view.sliced_from = b.sliced_from;
  const ProgramValueId root = view.within;
  const ProgramValueId id = AddValue(std::move(view));
  views_[root].push_back(id);
  return id;
}

bool ProgramBuilder::IsViewOfSlice(ProgramValueId id) const {
  const ProgramValueId base = program_.values[id].sliced_from;
  return base != kNone && program_.values[base].sliced_from != kNone;
}

bool ProgramBuilder::IsSlice(ProgramValueId id) const {
  return program_.values[id].sliced_from != kNone && !IsViewOfSlice(id);
}

absl::StatusOr<ProgramValueId> ProgramBuilder::Slice(std::string path, TensorType type,
                                                     ProgramValueId base, PartId part) {
  if (IsViewOfSlice(base)) {
    ASSIGN_OR_RETURN(base, FindOrEmitCopy(base));
  }
  ASSIGN_OR_RETURN(base, EnsurePadded(base));
  const Strides strides = program_.values[base].strides;
  const Role role = program_.values[base].role;
  const ProgramValueId id =
      AddView(std::move(path), std::move(type), base, ViewPlacement{0, strides}, role, part);
  ProgramValue& slice = program_.values[id];
  // A slice of a slice begins at the start of its own part within the base.
  if (slice.sliced_from != kNone) base = program_.values[base].sliced_from;
  slice.sliced_from = base;
  return id;
}

absl::StatusOr<ProgramValueId> ProgramBuilder::FlatSlice(std::string path, ProgramValueId base,
                                                         const FlatRule& flat, PartId part) {
  ASSIGN_OR_RETURN(base, EnsureUnsliced(base));
  ASSIGN_OR_RETURN(base, EnsureUnstrided(base));
  const TensorType type = {program_.values[base].type.dtype, {flat.LocalElements()}};
  const Role role = program_.values[base].role;
  const ProgramValueId id =
      AddView(std::move(path), type, base, ViewPlacement{0, Strides{1}}, role, part);
  program_.values[id].flat = FindOrAddFlat(flat);
  program_.values[id].sliced_from = base;
  return id;
}

void ProgramBuilder::Emit(Instruction instruction) {
  const InstructionId index = program_.instructions.end_id();
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    if (!TakesStrides(instruction, static_cast<int>(i))) row_major_[instruction.inputs[i]] = true;
  }
  for (ProgramValueId output : instruction.outputs) producer_[output] = index;
  program_.instructions.push_back(std::move(instruction));
}

absl::Status ProgramBuilder::EmitKernel(KernelWork work, Instruction instruction) {
  instruction.phase = phase_;
  ASSIGN_OR_RETURN(instruction.kernel,
                   kernels_.FindOrAdd(std::move(work), instruction.inputs, instruction.outputs));
  const Kernel& kernel = *program_.KernelOf(instruction).kernel;
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    if (!kernel.StridedInput(static_cast<int>(i))) {
      ASSIGN_OR_RETURN(instruction.inputs[i], EnsureUnstrided(instruction.inputs[i]));
    }
  }
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    const ProgramValueId output = instruction.outputs[i];
    if (!kernel.StridedOutput(static_cast<int>(i)) && Ragged(output)) {
      program_.values[output].packed = true;
    }
  }
  Emit(std::move(instruction));
  return absl::OkStatus();
}

absl::Status ProgramBuilder::EmitCopy(ProgramValueId source, ProgramValueId target) {
  ASSIGN_OR_RETURN(Instruction copy, CopyInstruction(program_, kernels_, source, target, phase_));
  Emit(std::move(copy));
  return absl::OkStatus();
}

absl::Status ProgramBuilder::EmitCollective(const CollectiveRequest& request,
                                            absl::string_view stream, ProgramValueId input,
                                            ProgramValueId output) {
  program_.values[output].gradient_of = program_.values[input].gradient_of;
  ASSIGN_OR_RETURN(input, EnsureUnsliced(input));
  ASSIGN_OR_RETURN(input, EnsurePadded(input));
  ASSIGN_OR_RETURN(input, EnsureRowMajor(input));
  Instruction collective;
  collective.path = program_.values[output].path;
  collective.kind = InstructionKind::kCollective;
  collective.stream = program_.FindOrAddStream(stream);
  collective.collective = program_.FindOrAddCollective(request);
  collective.inputs = {input};
  collective.outputs = {output};
  collective.phase = phase_;
  Emit(std::move(collective));
  return absl::OkStatus();
}

absl::StatusOr<ProgramValueId> ProgramBuilder::EmitFill(const std::string& path,
                                                        const TensorType& type, double value) {
  Instruction instruction;
  instruction.path = path;
  instruction.cost.bytes = static_cast<double>(NumBytes(type));
  const ProgramValueId filled = AddTensor(path, type, Role::kActivation, kNone);
  instruction.outputs = {filled};
  const std::vector<int64_t> shape(type.shape.begin(), type.shape.end());
  RETURN_IF_ERROR(EmitKernel({"fill", {{"shape", shape}, {"dtype", type.dtype}, {"value", value}}},
                             std::move(instruction)));
  return filled;
}

absl::StatusOr<ProgramValueId> ProgramBuilder::EmitCopyOf(ProgramValueId id) {
  const ProgramValue& value = program_.values[id];
  const ProgramValueId copy =
      AddTensor(absl::StrCat(value.path, ".copy"), value.type, value.role, value.part);
  RETURN_IF_ERROR(EmitCopy(id, copy));
  return copy;
}

absl::StatusOr<ProgramValueId> ProgramBuilder::FindOrEmitCopy(ProgramValueId id, bool packed) {
  const std::pair<ProgramValueId, bool> key = {id, packed};
  if (const auto known = copies_.find(key); known != copies_.end()) return known->second;
  const ProgramValue& value = program_.values[id];
  const ProgramValueId copy = AddTensor(absl::StrCat(value.path, packed ? ".packed" : ".copy"),
                                        value.type, value.role, value.part);
  program_.values[copy].packed = packed;
  RETURN_IF_ERROR(EmitCopy(id, copy));
  copies_[key] = copy;
  return copy;
}

bool ProgramBuilder::Ragged(ProgramValueId id) {
  const ProgramValue& value = program_.values[id];
  if (value.part == kNone || value.flat != kNone) return false;
  const auto [it, inserted] = ragged_.try_emplace(value.part, false);
  if (inserted) it->second = program_.parts[value.part].Ragged(program_.mesh);
  return it->second;
}

absl::StatusOr<ProgramValueId> ProgramBuilder::EnsureUnstrided(ProgramValueId id) {
  if (program_.values[id].packed || !Ragged(id)) return EnsureRowMajor(id);
  return FindOrEmitCopy(id, /*packed=*/true);
}

absl::StatusOr<ProgramValueId> ProgramBuilder::EnsureRowMajor(ProgramValueId id) {
  const ProgramValue& value = program_.values[id];
  if (IsRowMajor(value.type.shape, value.strides)) return id;
  return FindOrEmitCopy(id);
}

absl::StatusOr<ProgramValueId> ProgramBuilder::EnsurePadded(ProgramValueId id) {
  return program_.values[id].packed ? FindOrEmitCopy(id) : id;
}

absl::StatusOr<ProgramValueId> ProgramBuilder::EnsureUnsliced(ProgramValueId id) {
  return program_.values[id].sliced_from == kNone ? id : FindOrEmitCopy(id);
}

absl::Status ProgramBuilder::PutInto(ProgramValueId assembled, ProgramValueId part,
                                     const ViewPlacement& placement, const std::string& path) {
  if (TryMoveInto(assembled, part, placement)) return absl::OkStatus();
  const ProgramValue& value = program_.values[part];
  const ProgramValueId target =
      AddView(path, value.type, assembled, placement, program_.values[assembled].role, value.part);
  return EmitCopy(part, target);
}

ProgramValueId ProgramBuilder::AddPackedView(std::string path, const TensorType& type,
                                             ProgramValueId base, int64_t offset, Role role,
                                             PartId part) {
  const ProgramValueId view =
      AddView(std::move(path), type, base, {offset, RowMajorStrides(type.shape)}, role, part);
  program_.values[view].packed = Ragged(view);
  return view;
}

absl::Status ProgramBuilder::PutPacked(ProgramValueId assembled, ProgramValueId part,
                                       int64_t offset, const std::string& path) {
  const ProgramValue& value = program_.values[part];
  if (!Ragged(part)) {
    return PutInto(assembled, part, {offset, RowMajorStrides(value.type.shape)}, path);
  }
  const ProgramValueId target = AddPackedView(path, value.type, assembled, offset,
                                              program_.values[assembled].role, value.part);
  return EmitCopy(part, target);
}

bool ProgramBuilder::TryMoveInto(ProgramValueId assembled, ProgramValueId part,
                                 const ViewPlacement& placement) {
  const ProgramValueId root = Root(part);
  if (producer_[root] == kNone || kept_[root]) return false;
  if (program_.values[root].packed || program_.values[part].packed) return false;
  const std::optional<std::vector<Moved>> moved = MovedStrides(root, part, placement.strides);
  if (!moved.has_value()) return false;
  for (const Moved& m : *moved) {
    if (!IsRowMajor(program_.values[m.value].type.shape, m.strides) && !AllowsStrides(m.value)) {
      return false;
    }
  }
  for (const Moved& m : *moved) {
    ProgramValue& value = program_.values[m.value];
    value.buffer = program_.values[assembled].buffer;
    value.offset += placement.offset * SizeOf(value.type.dtype);
    value.within = assembled;
    value.strides = m.strides;
    views_[assembled].push_back(m.value);
  }
  views_.erase(root);
  return true;
}

std::optional<std::vector<ProgramBuilder::Moved>> ProgramBuilder::MovedStrides(
    ProgramValueId root, ProgramValueId part, const Strides& strides) const {
  if (!CoversRoot(part)) return std::nullopt;
  const std::optional<Strides> root_strides = ReshapedStrides(part, strides, root);
  if (!root_strides.has_value()) return std::nullopt;
  const bool row_major = IsRowMajor(program_.values[root].type.shape, *root_strides);
  std::vector<Moved> moved = {{root, *root_strides}};
  const auto views = views_.find(root);
  if (views == views_.end()) return moved;
  for (ProgramValueId view : views->second) {
    if (row_major) {
      moved.push_back({view, program_.values[view].strides});
      continue;
    }
    std::optional<Strides> view_strides;
    if (CoversRoot(view)) view_strides = ReshapedStrides(root, *root_strides, view);
    if (!view_strides.has_value()) return std::nullopt;
    moved.push_back({view, *std::move(view_strides)});
  }
  return moved;
}

bool ProgramBuilder::CoversRoot(ProgramValueId id) const {
  const ProgramValue& value = program_.values[id];
  const ProgramValue& root = program_.values[Root(id)];
  return value.sliced_from == kNone && value.offset == root.offset &&
         IsRowMajor(value.type.shape, value.strides) && IsRowMajor(root.type.shape, root.strides) &&
         NumElements(value.type.shape) == NumElements(root.type.shape);
}

std::optional<Strides> ProgramBuilder::ReshapedStrides(ProgramValueId from, const Strides& strides,
                                                       ProgramValueId to) const {
  const TensorType& type = program_.values[from].type;
  const TensorType& reshaped = program_.values[to].type;
  if (type == reshaped) return strides;
  const Attributes none;
  static const Operator& reshape = *FindOperator("reshape");
  const std::optional<ViewPlacement> view = reshape.View(
      {absl::MakeConstSpan(&type, 1), absl::MakeConstSpan(&reshaped, 1), none}, 0, strides);
  if (!view.has_value() || view->offset != 0) return std::nullopt;
  return view->strides;
}

bool ProgramBuilder::TakesStrides(const Instruction& instruction, int input) const {
  return instruction.kind == InstructionKind::kKernel &&
         program_.KernelOf(instruction).kernel->StridedInput(input);
}

bool ProgramBuilder::AllowsStrides(ProgramValueId id) const {
  if (producer_[id] != kNone) {
    const Instruction& producer = program_.instructions[producer_[id]];
    if (producer.kind != InstructionKind::kKernel) return false;
    for (size_t j = 0; j < producer.outputs.size(); ++j) {
      if (producer.outputs[j] == id &&
          !program_.KernelOf(producer).kernel->StridedOutput(static_cast<int>(j))) {
        return false;
      }
    }
  }
  return !row_major_[id];
}

}  // namespace tessera
