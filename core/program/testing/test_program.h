// Test Programs with instructions that no Graph records yet.
#ifndef TESSERA_CORE_PROGRAM_TESTING_TEST_PROGRAM_H_
#define TESSERA_CORE_PROGRAM_TESTING_TEST_PROGRAM_H_

#include <algorithm>
#include <string>
#include <utility>

#include "core/program/kernels/kernel_chooser.h"
#include "core/program/memory/assign_buffers.h"
#include "core/program/memory/memory_plan.h"
#include "core/program/testing/lower_on_one_rank.h"
#include "core/program/verify/verify.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera {

// A Program between lowering and the assignment of buffers. Not thread-safe.
class TestProgram {
 public:
  TestProgram(const Graph& graph, const KernelCatalogue& catalogue)
      : chooser_(&catalogue, KernelChoices()) {
    absl::StatusOr<Program> lowered = LowerOnOneRank(graph, chooser_);
    TESSERA_CHECK(lowered.ok()) << lowered.status();
    program = *std::move(lowered);
  }

  // Returns the value with this path.
  ProgramValueId Value(absl::string_view path) const {
    for (const ProgramValueId id : program.values.ids()) {
      if (program.values[id].path == path) return id;
    }
    TESSERA_CHECK(false) << "no value " << std::string(path);
    return kNone;
  }

  // Returns the instruction with this path.
  InstructionId Find(absl::string_view path) const {
    for (const InstructionId i : program.instructions.ids()) {
      if (program.instructions[i].path == path) return i;
    }
    TESSERA_CHECK(false) << "no instruction " << std::string(path);
    return kNone;
  }

  StreamId Stream(absl::string_view name) {
    const auto found = std::find(program.streams.begin(), program.streams.end(), name);
    if (found == program.streams.end()) return program.streams.push_back(std::string(name));
    return program.streams.IdOf(found);
  }

  // Adds a contiguous value in a buffer of its own.
  ProgramValueId AddValue(absl::string_view path, TensorType type) {
    ProgramValue value;
    value.path = std::string(path);
    value.strides = RowMajorStrides(type.shape);
    Buffer buffer;
    buffer.path = value.path;
    buffer.bytes = NumBytes(type);
    value.type = std::move(type);
    value.buffer = program.buffers.push_back(std::move(buffer));
    return program.values.push_back(std::move(value));
  }

  // Inserts an instruction before instruction `position`, on the given stream. It reads `input` and
  // writes `output`; either may be kNone.
  void Insert(InstructionId position, InstructionKind kind, ProgramValueId input,
              ProgramValueId output, absl::string_view stream) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.stream = Stream(stream);
    if (input != kNone) instruction.inputs = {input};
    if (output != kNone) instruction.outputs = {output};
    instruction.path = program.value(output != kNone ? output : input).path;
    program.instructions.insert(program.instructions.begin() + position.index(),
                                std::move(instruction));
  }
  void InsertCollective(InstructionId position, const CollectiveRequest& request,
                        ProgramValueId input, ProgramValueId output, absl::string_view stream) {
    const InstructionKind kind =
        request.operation == CollectiveOperation::kSend      ? InstructionKind::kSend
        : request.operation == CollectiveOperation::kReceive ? InstructionKind::kReceive
                                                             : InstructionKind::kCollective;
    Insert(position, kind, input, output, stream);
    program.instructions[position].collective = program.FindOrAddCollective(request);
  }

  // Replaces `from` by `to` in the inputs of all instructions from `first` on, and in the outputs.
  void ReplaceReads(ProgramValueId from, ProgramValueId to, InstructionId first) {
    for (InstructionId i = first; i < program.instructions.end_id(); ++i) {
      Operands& inputs = program.instructions[i].inputs;
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
