#include "core/plan/layouts/decision_subjects.h"

#include <utility>

#include "core/plan/graph/optimizer_state.h"

namespace tessera {

DecisionSubjects::DecisionSubjects(absl::Span<const Graph> graphs)
    : parameter_of_(ParametersOfOptimizerState(graphs)) {
  for (const Graph& graph : graphs) {
    for (const State& state : graph.states()) {
      Add({state.path, state.origin, state.type, state.role, state.trainable});
    }
    for (const GraphInput& input : graph.inputs()) {
      const Value& value = graph.value(input.value);
      Add({value.path, value.path, value.type, Role::kInput, true});
    }
  }
}

void DecisionSubjects::Add(DecisionSubject subject) {
  if (index_.Has(subject.path)) return;
  index_.Add(subject.path, subject.origin);
  all_.push_back(std::move(subject));
}

}  // namespace tessera
