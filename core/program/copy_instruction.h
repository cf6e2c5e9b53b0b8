// The one builder of copy instructions.
#ifndef TESSERA_CORE_PROGRAM_COPY_INSTRUCTION_H_
#define TESSERA_CORE_PROGRAM_COPY_INSTRUCTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/program/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

// Returns an instruction that copies `source` to `target`, a value of the same type. It has the
// path of `target`. Its kernel is entered into the table, which is the Program's.
absl::StatusOr<Instruction> CopyInstruction(const Program& program, KernelTable& kernels,
                                            int32_t source, int32_t target, Phase phase);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_COPY_INSTRUCTION_H_
