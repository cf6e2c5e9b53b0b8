// Plans the scratch memory of a Program's kernels.
#ifndef TESSERA_CORE_PROGRAM_KERNELS_WORKSPACES_H_
#define TESSERA_CORE_PROGRAM_KERNELS_WORKSPACES_H_

#include "absl/status/status.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

// Sets the workspace of every kernel to the largest that its instructions need on any rank. A
// library's scratch memory may be larger for a smaller shape.
absl::Status PlanWorkspaces(KernelChooser& chooser, Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_KERNELS_WORKSPACES_H_
