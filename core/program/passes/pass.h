// Passes (Program -> Program) change when and where something is done. They run after lowering and
// before buffers are assigned, in the order that the Plan lists.
#ifndef TESSERA_CORE_PROGRAM_PASSES_PASS_H_
#define TESSERA_CORE_PROGRAM_PASSES_PASS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

struct Pass {
  absl::string_view name;
  absl::Status (*run)(KernelChooser& chooser, Program& program);
};

// Returns the pass with this name. NotFound lists the passes that exist.
absl::StatusOr<const Pass*> FindPass(absl::string_view name);
// Returns the passes of a Plan that lists none.
std::vector<std::string> DefaultPasses();

// Fuses a matrix product or a convolution with the bias and activation that follow it, and any
// kernel with the casts of its outputs from 16 bits to f32, if the backend has a kernel for the
// combination and nothing else reads the intermediate values. The cast of a bias is moved in front
// of the product.
absl::Status FusePass(KernelChooser& chooser, Program& program);

// Moves reductions of gradients, and instructions that free more memory than they take, as early as
// their dependencies allow. Instructions that read reduced gradients run in the order of the
// reductions; all others keep their order.
absl::Status OrderPass(KernelChooser& chooser, Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PASSES_PASS_H_
