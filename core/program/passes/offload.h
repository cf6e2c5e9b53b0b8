// Offload: parameters, gradients and optimizer state are kept in host memory and copied to the
// device for the time of their use.
#ifndef TESSERA_CORE_PROGRAM_PASSES_OFFLOAD_H_
#define TESSERA_CORE_PROGRAM_PASSES_OFFLOAD_H_

#include "absl/status/status.h"
#include "core/plan/choices/stage_passes.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

// Moves the tensors that `offload` selects to MemorySpace::kOffloadHost. Instructions work on
// staged copies of them on the device:
// - A state lies on the host from step to step. It is copied to the device before it is used, and
//   its updated value is copied back into the same bytes.
// - A gradient that is not read soon after it is complete is copied to the host, and back before it
//   is read.
//
// A use is an instruction that touches a selected tensor. A copy to the device begins `distance`
// uses before the first use that reads it. The copy on the device is dropped after its last use,
// unless the next copy of the same tensor would begin by then. The first stream runs at most
// `distance` uses ahead of the copies to the host, so that these copies hold a bounded part of the
// device's memory.
//
// Tensors of one element and gradients that a collective reads stay on the device.
//
// Must run on the final order of instructions, before buffers are assigned. Unimplemented if a step
// updates only some members of a flat group.
absl::Status OffloadToHost(const Offload& offload, KernelChooser& chooser, Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PASSES_OFFLOAD_H_
