// Finds the parameter that each optimizer state belongs to.
#ifndef TESSERA_CORE_PLAN_GRAPH_OPTIMIZER_STATE_H_
#define TESSERA_CORE_PLAN_GRAPH_OPTIMIZER_STATE_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

// Returns the path of a parameter for each path of its optimizer state. Optimizer state belongs to
// a parameter if one operator updates both and they have the same shape.
absl::flat_hash_map<std::string, std::string> ParametersOfOptimizerState(
    absl::Span<const Graph> graphs);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_GRAPH_OPTIMIZER_STATE_H_
