// Lowering: a Graph becomes a Program's instructions over values; views and assemblies become
// places in other values' memory. Buffers are assigned later, after the passes.
#ifndef TESSERA_CORE_PROGRAM_LOWER_H_
#define TESSERA_CORE_PROGRAM_LOWER_H_

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/program/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

// Operators that neither an output nor a state left behind needs are left out. Instructions stand
// in the Graph's order.
absl::StatusOr<Program> Lower(const Graph& graph, KernelChooser& chooser);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_H_
