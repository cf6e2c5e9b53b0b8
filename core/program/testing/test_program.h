// Test Programs with instructions that no Graph records yet.
#ifndef TESSERA_CORE_PROGRAM_TESTING_TEST_PROGRAM_H_
#define TESSERA_CORE_PROGRAM_TESTING_TEST_PROGRAM_H_

#include <algorithm>
#include <string>
#include <utility>

#include "core/program/kernels/kernel_chooser.h"
#include "core/program/lower/lower.h"
#include "core/program/memory/assign_buffers.h"
#include "core/program/memory/memory_plan.h"
#include "core/program/verify/verify.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera {

// A Program between lowering and the assignment of buffers. Not thread-safe.
class TestProgram {
 public:
  TestProgram(const Graph& graph, const KernelCatalogue& catalogue)
      : chooser_(&catalogue, KernelChoices()) {
    absl::StatusOr<Program> lowered = Lower(graph, chooser_);
    TESSERA_CHECK(lowered.ok()) << lowered.status();
    program = *std::move(lowered);
  }

  // Returns the value with this path.
  int32_t Value(absl::string_view path) const {
    for (size_t id = 0; id < program.values.size(); ++id) {
      if (program.values[id].path == path) return static_cast<int32_t>(id);
    }
    TESSERA_CHECK(false) << "no value " << std::string(path);
    return kNone;
  }

  // Returns the instruction with this path.
  int32_t Find(absl::string_view path) const {
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      if (program.instructions[i].path == path) return static_cast<int32_t>(i);
    }
    TESSERA_CHECK(false) << "no instruction " << std::string(path);
    return kNone;
  }

  int32_t Stream(absl::string_view name) {
    const auto found = std::find(program.streams.begin(), program.streams.end(), name);
    if (found == program.streams.end()) program.streams.emplace_back(name);
    return static_cast<int32_t>(std::find(program.streams.begin(), program.streams.end(), name) -
                                program.streams.begin());
  }

  // Adds a contiguous value in a buffer of its own.
  int32_t AddValue(absl::string_view path, TensorType type) {
    ProgramValue value;
    value.path = std::string(path);
    value.strides = RowMajorStrides(type.shape);
    value.buffer = static_cast<int32_t>(program.buffers.size());
    Buffer buffer;
    buffer.path = value.path;
    buffer.bytes = NumBytes(type);
    value.type = std::move(type);
    program.buffers.push_back(std::move(buffer));
    program.values.push_back(std::move(value));
    return static_cast<int32_t>(program.values.size()) - 1;
  }

  // Inserts an instruction before instruction `position`, on the given stream. It reads `input` and
  // writes `output`; either may be kNone.
  void Insert(int32_t position, InstructionKind kind, int32_t input, int32_t output,
              absl::string_view stream) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.stream = Stream(stream);
    if (input != kNone) instruction.inputs = {input};
    if (output != kNone) instruction.outputs = {output};
    instruction.path = program.value(output != kNone ? output : input).path;
    program.instructions.insert(program.instructions.begin() + position, std::move(instruction));
  }
  void InsertCollective(int32_t position, const CollectiveRequest& request, int32_t input,
                        int32_t output, absl::string_view stream) {
    const InstructionKind kind =
        request.operation == CollectiveOperation::kSend      ? InstructionKind::kSend
        : request.operation == CollectiveOperation::kReceive ? InstructionKind::kReceive
                                                             : InstructionKind::kCollective;
    Insert(position, kind, input, output, stream);
    program.instructions[position].collective = program.EnterCollective(request);
  }

  // Replaces `from` by `to` in the inputs of all instructions from `first` on, and in the outputs.
  void ReplaceReads(int32_t from, int32_t to, int32_t first) {
    for (size_t i = first; i < program.instructions.size(); ++i) {
      std::vector<int32_t>& inputs = program.instructions[i].inputs;
      std::replace(inputs.begin(), inputs.end(), from, to);
    }
    for (NamedValue& output : program.outputs) {
      if (output.value == from) output.value = to;
    }
  }

  absl::Status Finish() {
    RETURN_IF_ERROR(AssignBuffers(chooser_, program));
    StateLayout states;
    RETURN_IF_ERROR(states.Add(program));
    PlanMemory(states, program);
    return VerifyProgram(program);
  }

  Program program;

 private:
  KernelChooser chooser_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_TESTING_TEST_PROGRAM_H_
