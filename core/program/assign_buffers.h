// Decides which of the buffers that lowering has made become one: an operator's output takes that
// of an input in place, an updated state that of its input. After this the order of instructions is
// final.
#ifndef TESSERA_CORE_PROGRAM_ASSIGN_BUFFERS_H_
#define TESSERA_CORE_PROGRAM_ASSIGN_BUFFERS_H_

#include "absl/status/status.h"
#include "core/program/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

// Appends a copy for each state that cannot be computed where it is kept. Numbers the buffers that
// are left, fills in their live ranges, and adds workspaces and the waits between streams that
// values need.
absl::Status AssignBuffers(KernelChooser& chooser, Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_ASSIGN_BUFFERS_H_
