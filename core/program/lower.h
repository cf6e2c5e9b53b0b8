// Lowering: a Graph becomes a Program's instructions over values. Each tensor gets a buffer of its
// own, of which its views and the parts that it is assembled from are ranges. Which buffers can be
// one, and where they lie, is decided after the passes.
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
