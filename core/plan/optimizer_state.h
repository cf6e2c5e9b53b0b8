// Which optimizer state belongs to which parameter.
#ifndef TESSERA_CORE_PLAN_OPTIMIZER_STATE_H_
#define TESSERA_CORE_PLAN_OPTIMIZER_STATE_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

// Returns the path of the parameter that optimizer state belongs to, by the state's path: what one
// operator updates together with the parameter, and has its shape.
absl::flat_hash_map<std::string, std::string> ParametersOfOptimizerState(
    absl::Span<const Graph> graphs);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_OPTIMIZER_STATE_H_
