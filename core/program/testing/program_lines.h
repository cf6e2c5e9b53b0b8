// The instructions of a Program as short text, for tests of passes.
#ifndef TESSERA_CORE_PROGRAM_TESTING_PROGRAM_LINES_H_
#define TESSERA_CORE_PROGRAM_TESTING_PROGRAM_LINES_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/program/program.h"

namespace tessera {

// Returns a line "y = matmul+add(x, w, b)" for each instruction. An epilogue of another output than
// the first has its position: "layer_norm_grad+cast[1]".
inline std::string Lines(const Program& program) {
  std::string text;
  const auto names = [&](absl::Span<const ProgramValueId> ids) {
    return absl::StrJoin(ids, ", ", [&](std::string* out, ProgramValueId id) {
      absl::StrAppend(out, program.value(id).path);
    });
  };
  for (const Instruction& instruction : program.instructions) {
    const KernelRequest& request = program.KernelOf(instruction).request;
    absl::StrAppend(&text, names(instruction.outputs), " = ", request.op);
    for (const Epilogue& epilogue : request.epilogues) {
      absl::StrAppend(&text, "+", epilogue.op);
      if (epilogue.output != 0) absl::StrAppend(&text, "[", epilogue.output, "]");
    }
    absl::StrAppend(&text, "(", names(instruction.inputs), ")\n");
  }
  return text;
}

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_TESTING_PROGRAM_LINES_H_
