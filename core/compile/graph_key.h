// Keys for all that the layouts and the Program of a Graph depend on.
#ifndef TESSERA_CORE_COMPILE_GRAPH_KEY_H_
#define TESSERA_CORE_COMPILE_GRAPH_KEY_H_

#include <cstddef>
#include <string>

#include "core/plan/complete.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Returns bytes that are equal for two Plans of the same recorded Graphs and ranks if LayOutGraph
// returns the same for Graph i. `run` is the result of DecideRun.
std::string LayoutKey(const DecidedRun& run, size_t i, const Plan& plan);

// Returns bytes that, with the LayoutKey, are equal for two Plans if the Program of Graph i is the
// same under both, with the same kernel choices. (Programs may be the same although keys differ.)
std::string ProgramKey(const DecidedRun& run, size_t i, const Plan& plan);

}  // namespace tessera

#endif  // TESSERA_CORE_COMPILE_GRAPH_KEY_H_
