#include "core/program/dependencies.h"

#include <algorithm>

namespace tessera {
namespace {

// Whether the spans of two values of one root overlap.
bool SpansOverlap(const ProgramValue& a, const ProgramValue& b) {
  const int64_t a_end = a.root_offset + ExtentInElements(a.type.shape, a.strides);
  const int64_t b_end = b.root_offset + ExtentInElements(b.type.shape, b.strides);
  return a.root_offset < b_end && b.root_offset < a_end;
}

}  // namespace

std::vector<std::vector<int32_t>> Predecessors(const Program& program) {
  const size_t values = program.values.size();
  std::vector<int32_t> producer(values, kNone);  // of exactly this value
  // The values written into each root; several if it is assembled from parts.
  std::vector<std::vector<int32_t>> written(values);
  std::vector<std::vector<int32_t>> readers(values);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (int32_t id : instruction.outputs) {
      producer[id] = static_cast<int32_t>(i);
      written[program.values[id].root].push_back(id);
    }
    for (int32_t id : instruction.inputs) {
      readers[program.values[id].root].push_back(static_cast<int32_t>(i));
    }
  }
  std::vector<std::vector<int32_t>> predecessors(program.instructions.size());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const auto add_writers = [&](int32_t id) {
      if (producer[id] != kNone) {
        predecessors[i].push_back(producer[id]);
        return;
      }
      const ProgramValue& value = program.values[id];
      for (int32_t part : written[value.root]) {
        // A value without elements lies nowhere, but its root must have been made.
        const bool empty = NumElements(value.type.shape) == 0;
        if (empty || SpansOverlap(program.values[part], value))
          predecessors[i].push_back(producer[part]);
      }
    };
    for (int32_t id : instruction.inputs) add_writers(id);
    for (int32_t id : instruction.after) add_writers(id);
  }
  // If a state's updated value is computed before its input was last read, it is copied into place
  // later; edges against the present order could close a circle.
  for (const ProgramState& state : program.states) {
    if (state.input == kNone || state.updated == state.input) continue;
    for (int32_t part : written[program.values[state.updated].root]) {
      for (int32_t reader : readers[program.values[state.input].root]) {
        if (reader < producer[part]) predecessors[producer[part]].push_back(reader);
      }
    }
  }
  for (std::vector<int32_t>& list : predecessors) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return predecessors;
}

}  // namespace tessera
