#include "core/program/passes/offload_uses.h"

#include <utility>

#include "core/ids/table.h"

namespace tessera {

bool CanBeCopied(const ProgramValue& value) {
  return IsRowMajor(value.type.shape, value.strides) && !value.packed &&
         value.sliced_from == kNone && value.flat == kNone;
}

OffloadUses::OffloadUses(const Offload& offload, const Program& program)
    : offload_(offload), program_(program) {
  SelectStates();
  if (offload_.gradients) SelectGradients();
  NumberUses();
}

bool OffloadUses::Selects(const ProgramState& state) const {
  const ProgramValue& value = program_.value(state.input != kNone ? state.input : state.updated);
  if (value.flat == kNone && NumElements(value.type.shape) == 1) return false;
  return (state.role == Role::kParameter && offload_.parameters) ||
         (state.role == Role::kOptimizerState && offload_.optimizer_state);
}

void OffloadUses::SelectStates() {
  absl::flat_hash_map<ProgramValueId, size_t> group_of;  // by the tensor of a flat group
  for (const ProgramStateId i : program_.states.ids()) {
    const ProgramState& state = program_.states[i];
    if (!Selects(state)) continue;
    const ProgramValueId value = state.input != kNone ? state.input : state.updated;
    size_t index = tensors_.size();
    if (program_.value(value).flat != kNone) {
      index = group_of.try_emplace(program_.TensorOf(value), index).first->second;
    }
    if (index == tensors_.size()) tensors_.emplace_back();
    Offloaded& entry = tensors_[index];
    entry.states.push_back(i);
    if (state.input != kNone) entry.tensor = program_.TensorOf(state.input);
    if (state.updated != state.input) entry.updated = program_.TensorOf(state.updated);
  }
}

// A reduced gradient is one that no collective reads.
void OffloadUses::SelectGradients() {
  Table<ProgramValueId, bool> excluded(program_.values.size(), true);  // by tensor
  for (const Instruction& instruction : program_.instructions) {
    for (const ProgramValueId id : instruction.outputs) excluded[program_.TensorOf(id)] = false;
  }
  for (const Instruction& instruction : program_.instructions) {
    if (!program_.Communicates(instruction)) continue;
    for (const ProgramValueId id : instruction.inputs) excluded[program_.TensorOf(id)] = true;
  }
  for (const ProgramState& state : program_.states) {
    for (const ProgramValueId id : {state.input, state.updated}) {
      if (id != kNone) excluded[program_.TensorOf(id)] = true;
    }
  }
  for (const ProgramValueId id : program_.values.ids()) {
    if (program_.values[id].gradient_of == kNone) continue;
    const ProgramValueId tensor = program_.TensorOf(id);
    const ProgramValue& value = program_.values[tensor];
    if (excluded[tensor] || !CanBeCopied(value) || NumElements(value.type.shape) == 1) continue;
    excluded[tensor] = true;
    tensors_.emplace_back().tensor = tensor;
  }
}

void OffloadUses::NumberUses() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Offloaded& entry = tensors_[i];
    if (entry.tensor != kNone) touched_with_[entry.tensor].push_back(i);
    if (entry.updated != kNone) touched_with_[entry.updated].push_back(i);
  }
  for (const InstructionId i : program_.instructions.ids()) {
    const UseId use = position_of_.end_id();  // the number of the instruction if it is a use
    bool is_use = false;
    const auto record_use = [&](ProgramValueId id, bool writes) {
      const auto found = touched_with_.find(program_.TensorOf(id));
      if (found == touched_with_.end()) return;
      is_use = true;
      for (const size_t index : found->second) {
        Offloaded& entry = tensors_[index];
        if (entry.uses.empty() || entry.uses.back() != use) entry.uses.push_back(use);
        if (!writes) continue;
        if (entry.first_write == kNone) entry.first_write = use;
        entry.last_write = use;
      }
    };
    for (const ProgramValueId id : program_.instructions[i].inputs)
      record_use(id, /*writes=*/false);
    for (const ProgramValueId id : program_.instructions[i].outputs)
      record_use(id, /*writes=*/true);
    if (is_use) position_of_.push_back(i);
  }
}

std::vector<OffloadUses::Period> OffloadUses::PeriodsOf(const Offloaded& tensor) const {
  std::vector<Period> periods;
  for (size_t i = 0; i < tensor.uses.size(); ++i) {
    bool continues_period = false;
    if (i > 0) {
      const UseId before = tensor.uses[i - 1], use = tensor.uses[i];
      const bool written = tensor.first_write != kNone && before >= tensor.first_write;
      int gap = offload_.distance + 1;
      // A gradient is copied to the host before it can be dropped for the first time.
      if (!tensor.is_state() && periods.size() == 1) gap += offload_.distance;
      continues_period =
          (written && (tensor.is_state() || use <= tensor.last_write)) || use - before <= gap;
    }
    if (!continues_period) periods.push_back({i, i});
    periods.back().last = i;
  }
  return periods;
}

InstructionId OffloadUses::BeginOfCopyFor(UseId use) const {
  return use.index() < offload_.distance ? InstructionId(0) : position_of_[use - offload_.distance];
}

InstructionId OffloadUses::Following(UseId use, int k) const {
  const StreamId stream = program_.instructions[position_of_[use]].stream;
  const InstructionId any =
      position_of_.contains(use + k) ? position_of_[use + k] : program_.instructions.end_id();
  for (UseId next = use + 1; position_of_.contains(next); ++next) {
    const InstructionId position = position_of_[next];
    if (program_.instructions[position].stream == stream && --k == 0) return position;
  }
  return any;
}

}  // namespace tessera
