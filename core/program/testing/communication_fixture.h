// Small Programs that communicate, for tests of passes.
#ifndef TESSERA_CORE_PROGRAM_TESTING_COMMUNICATION_FIXTURE_H_
#define TESSERA_CORE_PROGRAM_TESTING_COMMUNICATION_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/reference/backend.h"
#include "core/program/testing/test_program.h"
#include "gtest/gtest.h"

namespace tessera {

inline constexpr int64_t kElements = 12;

inline TensorType F64(Shape shape) { return {DType::kF64, std::move(shape)}; }

// Returns a line "y = add(x, w)" for each instruction. Values within another one are
// "tensor[offset]".
inline std::string Lines(const Program& program) {
  const auto name = [&](ProgramValueId id) {
    const ProgramValue& value = program.value(id);
    if (value.within == kNone) return value.path;
    return absl::StrCat(program.value(value.within).path, "[",
                        value.offset / SizeOf(value.type.dtype), "]");
  };
  const auto names = [&](absl::Span<const ProgramValueId> ids) {
    return absl::StrJoin(
        ids, ", ", [&](std::string* out, ProgramValueId id) { absl::StrAppend(out, name(id)); });
  };
  std::string text;
  for (const Instruction& instruction : program.instructions) {
    absl::StrAppend(&text, names(instruction.outputs), " = ", program.OperationOf(instruction), "(",
                    names(instruction.inputs), ")");
    if (!instruction.after.empty()) absl::StrAppend(&text, " after ", names(instruction.after));
    absl::StrAppend(&text, "\n");
  }
  return text;
}

// A Graph, lowered, into which a test inserts collectives.
class CommunicationTest : public ::testing::Test {
 protected:
  // Inserts a collective after the instruction that computes `path`, or first if there is none, and
  // makes all later instructions read its output.
  void Communicate(TestProgram& made, CollectiveOperation operation, const std::string& path,
                   int64_t elements, const char* stream, InstructionId position) {
    const bool gather = operation == CollectiveOperation::kAllGather;
    const ProgramValueId output = made.AddValue(path + (gather ? ".gathered" : ".reduced"),
                                                F64({gather ? 2 * elements : elements}));
    made.InsertCollective(position,
                          {.operation = operation,
                           .elements = gather ? 2 * elements : elements,
                           .dtype = DType::kF64,
                           .mesh_axes = {"data"}},
                          made.Value(path), output, stream);
    made.ReplaceReads(made.Value(path), output, position + 1);
  }

  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  Graph graph_{"test"};
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_TESTING_COMMUNICATION_FIXTURE_H_
