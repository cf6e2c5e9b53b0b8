// Lowering: a Graph becomes a Program's instructions over values; views and parts of assemblies
// become ranges of other values' memory. Buffers are assigned later, after the passes.
#ifndef TESSERA_CORE_PROGRAM_LOWER_H_
#define TESSERA_CORE_PROGRAM_LOWER_H_

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/program/kernel_chooser.h"
#include "core/program/program.h"

namespace tessera {

// Leaves out operators that neither an output nor an updated state needs. Instructions have the
// Graph's order.
absl::StatusOr<Program> Lower(const Graph& graph, KernelChooser& chooser);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_H_
