#include "core/plan/graph/optimizer_state.h"

#include <map>
#include <vector>

namespace tessera {

absl::flat_hash_map<std::string, std::string> ParametersOfOptimizerState(
    absl::Span<const Graph> graphs) {
  absl::flat_hash_map<std::string, std::string> parameter_of;
  for (const Graph& graph : graphs) {
    std::map<OpId, std::vector<const State*>> updates;
    for (const State& state : graph.states()) {
      if (state.updated == kNone || state.updated == state.input) continue;
      updates[graph.value(state.updated).producer].push_back(&state);
    }
    for (const auto& [op, states] : updates) {
      if (op == kNone) continue;
      for (const State* state : states) {
        if (state->role != Role::kParameter) continue;
        for (const State* other : states) {
          if (other->role == Role::kOptimizerState && other->type.shape == state->type.shape) {
            parameter_of[other->path] = state->path;
          }
        }
      }
    }
  }
  return parameter_of;
}

}  // namespace tessera
