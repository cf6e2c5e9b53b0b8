// Merges buffers that lowering has made: an operator's output may use the buffer of an input (in
// place), and an updated state uses the buffer of its input state. After this the order of
// instructions is final.
#ifndef TESSERA_CORE_PROGRAM_MEMORY_ASSIGN_BUFFERS_H_
#define TESSERA_CORE_PROGRAM_MEMORY_ASSIGN_BUFFERS_H_

#include "absl/status/status.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

// Appends a copy for each state that cannot be updated in its own buffer. Numbers the remaining
// buffers, fills in their live ranges, and adds workspaces and the waits between streams that
// values need.
absl::Status AssignBuffers(KernelChooser& chooser, Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_MEMORY_ASSIGN_BUFFERS_H_
