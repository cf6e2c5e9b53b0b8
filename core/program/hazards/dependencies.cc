#include "core/program/hazards/dependencies.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "core/program/hazards/buffer_contents.h"

namespace tessera {
namespace {

// Returns whether the spans of two ranges of one buffer, from first to last byte, overlap.
bool SpansOverlap(const StridedRange& a, const StridedRange& b) {
  return a.begin() < b.end() && b.begin() < a.end();
}

// Returns by buffer whether it holds several tensors.
std::vector<bool> SharedBuffers(const Program& program) {
  std::vector<int32_t> tensors(program.buffers.size(), kNone);
  std::vector<bool> shared(program.buffers.size(), false);
  for (size_t id = 0; id < program.values.size(); ++id) {
    const int32_t buffer = program.values[id].buffer;
    const int32_t tensor = program.TensorOf(static_cast<int32_t>(id));
    if (buffer == kNone) continue;
    if (tensors[buffer] == kNone) tensors[buffer] = tensor;
    if (tensors[buffer] != tensor) shared[buffer] = true;
  }
  return shared;
}

// Adds the dependency of an instruction that reuses bytes for another tensor on those that used the
// bytes before.
void AddReuse(const Program& program, const ValueBytes& bytes_of,
              std::vector<std::vector<int32_t>>& predecessors) {
  const std::vector<bool> shared = SharedBuffers(program);
  absl::flat_hash_map<int32_t, BufferContents> contents;  // by buffer
  for (const ProgramState& state : program.states) {
    if (state.input == kNone) continue;
    const int32_t buffer = program.values[state.input].buffer;
    if (shared[buffer]) contents[buffer].Write(state.input, kNone, bytes_of.Of(state.input));
  }
  for (int32_t i = 0; i < static_cast<int32_t>(program.instructions.size()); ++i) {
    const Instruction& instruction = program.instructions[i];
    const auto near = [&](int32_t id, const auto& visit) {
      const ProgramValue& value = program.values[id];
      if (!shared[value.buffer]) return;
      const StridedRange bytes = bytes_of.Of(id);
      contents[value.buffer].ForEachNear(bytes, [&](BufferContents::Entry& entry) {
        visit(entry, program.TensorOf(entry.value) == program.TensorOf(id));
      });
    };
    for (int32_t id : instruction.inputs) {
      near(id, [&](BufferContents::Entry& entry, bool same_tensor) {
        // All readers are kept, because a pass may reorder them.
        const bool known = !entry.readers.empty() && entry.readers.back().instruction == i;
        if (same_tensor && !known) entry.readers.push_back({i, i});
      });
    }
    for (int32_t id : instruction.outputs) {
      near(id, [&](BufferContents::Entry& entry, bool same_tensor) {
        if (same_tensor) return;
        if (entry.writer != i && entry.writer != kNone) predecessors[i].push_back(entry.writer);
        for (const BufferContents::Reader& reader : entry.readers) {
          if (reader.instruction != i) predecessors[i].push_back(reader.instruction);
        }
      });
      const ProgramValue& value = program.values[id];
      if (shared[value.buffer]) contents[value.buffer].Write(id, i, bytes_of.Of(id));
    }
  }
}

}  // namespace

std::vector<std::vector<int32_t>> Predecessors(const Program& program) {
  const size_t values = program.values.size();
  std::vector<int32_t> producer(values, kNone);  // of exactly this value
  // The values written into each tensor; several if it is assembled from parts.
  std::vector<std::vector<int32_t>> written(values);
  std::vector<std::vector<int32_t>> readers(values);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (int32_t id : instruction.outputs) {
      producer[id] = static_cast<int32_t>(i);
      written[program.TensorOf(id)].push_back(id);
    }
    for (int32_t id : instruction.inputs) {
      readers[program.TensorOf(id)].push_back(static_cast<int32_t>(i));
    }
  }
  std::vector<std::vector<int32_t>> predecessors(program.instructions.size());
  const ValueBytes bytes_of(program);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const auto add_writers = [&](int32_t id) {
      if (producer[id] != kNone) {
        predecessors[i].push_back(producer[id]);
        return;
      }
      const ProgramValue& value = program.values[id];
      for (int32_t part : written[program.TensorOf(id)]) {
        // A value without elements has no bytes, but its tensor must have been made.
        const bool empty = NumElements(value.type.shape) == 0;
        if (empty || SpansOverlap(bytes_of.Of(part), bytes_of.Of(id)))
          predecessors[i].push_back(producer[part]);
      }
    };
    for (int32_t id : instruction.inputs) add_writers(id);
    for (int32_t id : instruction.after) add_writers(id);
  }
  // If a state's updated value is computed before the last read of its input, it is copied into
  // place later. An edge against the current order could form a cycle. A member of a flat group is
  // written over its input, as AddReuse() finds.
  for (const ProgramState& state : program.states) {
    if (state.input == kNone || state.updated == state.input) continue;
    if (program.values[state.input].buffer == program.values[state.updated].buffer) continue;
    for (int32_t part : written[program.TensorOf(state.updated)]) {
      for (int32_t reader : readers[program.TensorOf(state.input)]) {
        if (reader < producer[part]) predecessors[producer[part]].push_back(reader);
      }
    }
  }
  AddReuse(program, bytes_of, predecessors);
  for (std::vector<int32_t>& list : predecessors) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return predecessors;
}

}  // namespace tessera
