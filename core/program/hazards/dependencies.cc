#include "core/program/hazards/dependencies.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/program/hazards/buffer_contents.h"

namespace tessera {
namespace {

// Pairs of an instruction and one that must run before it.
using Edges = std::vector<std::pair<int32_t, int32_t>>;

// Returns whether two ranges of one buffer have a byte in common. The columns of a matrix do not,
// although each lies between the bytes of the others.
bool Overlap(const StridedRange& a, const StridedRange& b) {
  if (a.begin() >= b.end() || b.begin() >= a.end()) return false;
  return (a.contiguous() && b.contiguous()) || StridedRange::Common(a, b) > 0;
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
void AddReuse(const Program& program, const ValueBytes& bytes_of, Edges& edges) {
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
  IndexLists written;  // the values written into it; several if it is assembled from parts
  IndexLists readers;  // instructions
};

Accesses AccessesOf(const Program& program) {
  Edges written, readers;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (int32_t id : instruction.outputs) written.emplace_back(program.TensorOf(id), id);
    for (int32_t id : instruction.inputs) {
      readers.emplace_back(program.TensorOf(id), static_cast<int32_t>(i));
    }
  }
  const size_t values = program.values.size();
  return {IndexLists(values, written), IndexLists(values, readers)};
}

}  // namespace

IndexLists Predecessors(const Program& program) {
  const size_t values = program.values.size();
  const int32_t count = static_cast<int32_t>(program.instructions.size());
  std::vector<int32_t> producer(values, kNone);  // of exactly this value
  const Accesses accesses = AccessesOf(program);
  const IndexLists &written = accesses.written, &readers = accesses.readers;
  for (int32_t i = 0; i < count; ++i) {
    for (int32_t id : program.instructions[i].outputs) producer[id] = i;
  }
  Edges edges;
  const ValueBytes bytes_of(program);
  for (int32_t i = 0; i < count; ++i) {
    const Instruction& instruction = program.instructions[i];
    const auto add_writers = [&](int32_t id) {
      if (producer[id] != kNone) {
        edges.emplace_back(i, producer[id]);
        return;
      }
      const ProgramValue& value = program.values[id];
      for (int32_t part : written[program.TensorOf(id)]) {
        // A value without elements has no bytes, but its tensor must have been made.
        const bool empty = NumElements(value.type.shape) == 0;
        if (empty || Overlap(bytes_of.Of(part), bytes_of.Of(id))) {
          edges.emplace_back(i, producer[part]);
        }
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
        if (reader < producer[part]) edges.emplace_back(producer[part], reader);
      }
    }
  }
  AddReuse(program, bytes_of, edges);
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return IndexLists(count, edges);
}

}  // namespace tessera
