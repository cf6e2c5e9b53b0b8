// Makes copy instructions. All copies are made here.
#ifndef TESSERA_CORE_PROGRAM_KERNELS_COPY_INSTRUCTION_H_
#define TESSERA_CORE_PROGRAM_KERNELS_COPY_INSTRUCTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

// Returns an instruction that copies `source` to `target`, a value of the same type, and has the
// path of `target`. Enters its kernel into `kernels`, the table of `program`.
absl::StatusOr<Instruction> CopyInstruction(const Program& program, KernelTable& kernels,
                                            ProgramValueId source, ProgramValueId target,
                                            Phase phase);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_KERNELS_COPY_INSTRUCTION_H_
