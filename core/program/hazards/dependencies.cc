#include "core/program/hazards/dependencies.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ids/table.h"
#include "core/program/hazards/buffer_contents.h"

namespace tessera {
namespace {

// Pairs of an instruction and one that must run before it.
using Edges = std::vector<std::pair<InstructionId, InstructionId>>;

// Returns whether two ranges of one buffer have a byte in common. The columns of a matrix do not,
// although each lies between the bytes of the others.
bool Overlap(const StridedRange& a, const StridedRange& b) {
  if (a.begin() >= b.end() || b.begin() >= a.end()) return false;
  return (a.contiguous() && b.contiguous()) || StridedRange::CommonElements(a, b) > 0;
}

// Returns by buffer whether it holds several tensors.
Table<BufferId, bool> SharedBuffers(const Program& program) {
  Table<BufferId, ProgramValueId> tensors(program.buffers.size(), kNone);
  Table<BufferId, bool> shared(program.buffers.size(), false);
  for (const ProgramValueId id : program.values.ids()) {
    const BufferId buffer = program.values[id].buffer;
    const ProgramValueId tensor = program.TensorOf(id);
    if (buffer == kNone) continue;
    if (tensors[buffer] == kNone) tensors[buffer] = tensor;
    if (tensors[buffer] != tensor) shared[buffer] = true;
  }
  return shared;
}

// Adds the dependency of an instruction that reuses bytes for another tensor on those that used the
// bytes before.
void AddReuse(const Program& program, const ValueBytes& bytes_of, Edges& edges) {
  const Table<BufferId, bool> shared = SharedBuffers(program);
  absl::flat_hash_map<BufferId, BufferContents> contents;
  for (const ProgramState& state : program.states) {
    if (state.input == kNone) continue;
    const BufferId buffer = program.values[state.input].buffer;
    if (shared[buffer]) contents[buffer].Write(state.input, kNone, bytes_of.Of(state.input));
  }
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    const auto near = [&](ProgramValueId id, const auto& visit) {
      const ProgramValue& value = program.values[id];
      if (!shared[value.buffer]) return;
      const StridedRange bytes = bytes_of.Of(id);
      contents[value.buffer].ForEachNear(bytes, [&](BufferContents::Entry& entry) {
        visit(entry, program.TensorOf(entry.value) == program.TensorOf(id));
      });
    };
    for (ProgramValueId id : instruction.inputs) {
      near(id, [&](BufferContents::Entry& entry, bool same_tensor) {
        // All readers are kept, because a pass may reorder them.
        const bool known = !entry.readers.empty() && entry.readers.back().instruction == i;
        if (same_tensor && !known) entry.readers.push_back({kNone, i});
      });
    }
    for (ProgramValueId id : instruction.outputs) {
      near(id, [&](BufferContents::Entry& entry, bool same_tensor) {
        if (same_tensor) return;
        if (entry.writer != i && entry.writer != kNone) edges.emplace_back(i, entry.writer);
        for (const BufferContents::Reader& reader : entry.readers) {
          if (reader.instruction != i) edges.emplace_back(i, reader.instruction);
        }
      });
      const ProgramValue& value = program.values[id];
      if (shared[value.buffer]) contents[value.buffer].Write(id, i, bytes_of.Of(id));
    }
  }
}

// The instructions that use each tensor.
struct Accesses {
  IndexLists<ProgramValueId, ProgramValueId>
      written;  // the values written into it; several if it is assembled from parts
  IndexLists<ProgramValueId, InstructionId> readers;
};

Accesses AccessesOf(const Program& program) {
  std::vector<std::pair<ProgramValueId, ProgramValueId>> written;
  std::vector<std::pair<ProgramValueId, InstructionId>> readers;
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    for (ProgramValueId id : instruction.outputs) written.emplace_back(program.TensorOf(id), id);
    for (ProgramValueId id : instruction.inputs) {
      readers.emplace_back(program.TensorOf(id), i);
    }
  }
  const size_t values = program.values.size();
  return {{values, written}, {values, readers}};
}

}  // namespace

IndexLists<InstructionId, InstructionId> Predecessors(const Program& program) {
  const size_t values = program.values.size();
  Table<ProgramValueId, InstructionId> producer(values, kNone);  // of exactly this value
  const Accesses accesses = AccessesOf(program);
  const auto& written = accesses.written;
  const auto& readers = accesses.readers;
  for (const InstructionId i : program.instructions.ids()) {
    for (ProgramValueId id : program.instructions[i].outputs) producer[id] = i;
  }
  Edges edges;
  const ValueBytes bytes_of(program);
  for (const InstructionId i : program.instructions.ids()) {
    const Instruction& instruction = program.instructions[i];
    const auto add_writers = [&](ProgramValueId id) {
      if (producer[id] != kNone) {
        edges.emplace_back(i, producer[id]);
        return;
      }
      // A value without elements has no bytes, but its tensor must have been made.
      const bool empty = NumElements(program.values[id].type.shape) == 0;
      const StridedRange bytes = bytes_of.Of(id);
      for (ProgramValueId part : written[program.TensorOf(id)]) {
        if (empty || Overlap(bytes_of.Of(part), bytes)) {
          edges.emplace_back(i, producer[part]);
        }
      }
    };
    for (ProgramValueId id : instruction.inputs) add_writers(id);
    for (ProgramValueId id : instruction.after) add_writers(id);
  }
  // If a state's updated value is computed before the last read of its input, it is copied into
  // place later. An edge against the current order could form a cycle. A member of a flat group is
  // written over its input, as AddReuse() finds.
  for (const ProgramState& state : program.states) {
    if (state.input == kNone || state.updated == state.input) continue;
    if (program.values[state.input].buffer == program.values[state.updated].buffer) continue;
    for (ProgramValueId part : written[program.TensorOf(state.updated)]) {
      for (InstructionId reader : readers[program.TensorOf(state.input)]) {
        if (reader < producer[part]) edges.emplace_back(producer[part], reader);
      }
    }
  }
  AddReuse(program, bytes_of, edges);
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return {program.instructions.size(), edges};
}

}  // namespace tessera
