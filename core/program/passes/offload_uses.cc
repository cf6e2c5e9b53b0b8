#include "core/program/passes/offload_uses.h"

#include <utility>

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
  absl::flat_hash_map<int32_t, size_t> group_of;  // by the tensor of a flat group
  for (size_t i = 0; i < program_.states.size(); ++i) {
    const ProgramState& state = program_.states[i];
    if (!Selects(state)) continue;
    const int32_t value = state.input != kNone ? state.input : state.updated;
    size_t index = tensors_.size();
    if (program_.value(value).flat != kNone) {
      index = group_of.try_emplace(program_.TensorOf(value), index).first->second;
    }
    if (index == tensors_.size()) tensors_.emplace_back();
    Offloaded& entry = tensors_[index];
    entry.states.push_back(static_cast<int32_t>(i));
    if (state.input != kNone) entry.tensor = program_.TensorOf(state.input);
    if (state.updated != state.input) entry.updated = program_.TensorOf(state.updated);
  }
}

// A reduced gradient is one that no collective reads.
void OffloadUses::SelectGradients() {
  std::vector<bool> excluded(program_.values.size(), true);  // by tensor
  for (const Instruction& instruction : program_.instructions) {
    for (const int32_t id : instruction.outputs) excluded[program_.TensorOf(id)] = false;
  }
  for (const Instruction& instruction : program_.instructions) {
    if (!program_.Communicates(instruction)) continue;
    for (const int32_t id : instruction.inputs) excluded[program_.TensorOf(id)] = true;
  }
  for (const ProgramState& state : program_.states) {
    for (const int32_t id : {state.input, state.updated}) {
      if (id != kNone) excluded[program_.TensorOf(id)] = true;
    }
  }
  for (size_t id = 0; id < program_.values.size(); ++id) {
    if (program_.values[id].gradient_of == kNone) continue;
    const int32_t tensor = program_.TensorOf(static_cast<int32_t>(id));
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
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    bool uses = false;
    const auto touch = [&](int32_t id, bool writes) {
      const auto found = touched_with_.find(program_.TensorOf(id));
      if (found == touched_with_.end()) return;
      uses = true;
      for (const size_t index : found->second) {
        Offloaded& entry = tensors_[index];
        if (entry.uses.empty() || entry.uses.back() != count()) entry.uses.push_back(count());
        if (!writes) continue;
        if (entry.first_write < 0) entry.first_write = count();
        entry.last_write = count();
      }
    };
    for (const int32_t id : program_.instructions[i].inputs) touch(id, /*writes=*/false);
    for (const int32_t id : program_.instructions[i].outputs) touch(id, /*writes=*/true);
    if (uses) position_of_.push_back(static_cast<int32_t>(i));
  }
}

std::vector<OffloadUses::Period> OffloadUses::PeriodsOf(const Offloaded& tensor) const {
  std::vector<Period> periods;
  for (size_t i = 0; i < tensor.uses.size(); ++i) {
    bool joins = false;
    if (i > 0) {
      const int32_t before = tensor.uses[i - 1], use = tensor.uses[i];
      const bool written = tensor.first_write >= 0 && before >= tensor.first_write;
      int32_t gap = offload_.distance + 1;
      // A gradient is copied to the host before it can be dropped for the first time.
      if (!tensor.is_state() && periods.size() == 1) gap += offload_.distance;
      joins = (written && (tensor.is_state() || use <= tensor.last_write)) || use - before <= gap;
    }
    if (!joins) periods.push_back({i, i});
    periods.back().last = i;
  }
  return periods;
}

int32_t OffloadUses::BeginOfCopyFor(int32_t use) const {
  return use < offload_.distance ? 0 : position_of_[use - offload_.distance];
}

int32_t OffloadUses::Following(int32_t use, int32_t k) const {
  const int32_t stream = program_.instructions[position_of_[use]].stream;
  const int32_t any = use + k < count() ? position_of_[use + k]
                                        : static_cast<int32_t>(program_.instructions.size());
  for (int32_t next = use + 1; next < count(); ++next) {
    const int32_t position = position_of_[next];
    if (program_.instructions[position].stream == stream && --k == 0) return position;
  }
  return any;
}

}  // namespace tessera
