// Gives every value a buffer: in place if an operator allows it, updated states in the bytes of
// their inputs. After this the order of instructions is final.
#ifndef TESSERA_CORE_PROGRAM_ASSIGN_BUFFERS_H_
#define TESSERA_CORE_PROGRAM_ASSIGN_BUFFERS_H_

#include "absl/status/status.h"
#include "core/program/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

// Appends a copy for each state that cannot be computed where it is kept. Fills in
// ProgramValue::buffer, Program::buffers with their live ranges, and workspaces.
absl::Status AssignBuffers(KernelChooser& chooser, Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_ASSIGN_BUFFERS_H_
