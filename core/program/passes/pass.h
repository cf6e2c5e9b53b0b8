// Passes change when and where something is done, Program -> Program. They run after lowering and
// before buffers are assigned, in the order that the Plan lists.
#ifndef TESSERA_CORE_PROGRAM_PASSES_PASS_H_
#define TESSERA_CORE_PROGRAM_PASSES_PASS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/program/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

using PassOptions = std::map<std::string, std::string>;

struct Pass {
  absl::string_view name;
  absl::Status (*run)(const PassOptions& options, KernelChooser& chooser, Program& program);
};

// The pass of that name. NotFound names the passes that there are.
absl::StatusOr<const Pass*> FindPass(absl::string_view name);
// The passes of an open Plan.
std::vector<std::string> DefaultPasses();

// Joins a matrix product with the bias and activation that follow it, where the backend has a
// kernel that does both and nothing else reads what lies between.
absl::Status FusePass(const PassOptions& options, KernelChooser& chooser, Program& program);

// Moves reductions of gradients, and instructions that free more memory than they take, as early as
// what they need allows. What reads reduced gradients runs in the order of their reductions; all
// others keep their order.
absl::Status OrderPass(const PassOptions& options, KernelChooser& chooser, Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PASSES_PASS_H_
