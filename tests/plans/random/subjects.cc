#include "tests/plans/random/subjects.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"

namespace tessera {
namespace {

Subjects::Operator Describe(const Graph& graph, const Op& op) {
  Subjects::Operator described;
  described.path = op.path;
  described.update = op.phase == Phase::kUpdate;
  const std::vector<TensorType> inputs = graph.TypesOf(op.inputs);
  const std::vector<TensorType> outputs = graph.TypesOf(op.outputs);
  for (const Signature& signature : op.kind->AllSignatures({inputs, outputs, op.attributes})) {
    described.signatures.push_back(signature.ToString());
  }
  return described;
}

// Returns the path, the scopes around it, and those with "*" for the number of a block.
std::vector<std::string> ScopesOf(const std::string& path,
                                  const Table<BlockId, std::string>& blocks) {
  std::vector<std::string> scopes = {path};
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
    scopes.push_back(path.substr(0, dot));
  }
  for (const std::string& block : blocks) {
    const std::string all = absl::StrCat(block.substr(0, block.rfind('.')), ".*");
    const size_t count = scopes.size();
    for (size_t i = 0; i < count; ++i) {
      if (InScope(scopes[i], block)) scopes.push_back(all + scopes[i].substr(block.size()));
    }
  }
  return scopes;
}

}  // namespace

Subjects SubjectsOf(const Graph& train) {
  Subjects subjects;
  subjects.blocks.assign(train.blocks().begin(), train.blocks().end());
  std::set<std::string> scopes;
  for (const State& state : train.states()) {
    if (state.role == Role::kRunningStatistic) {
      subjects.statistics.push_back({state.path, state.type.shape, {}});
    }
    if (state.role != Role::kParameter) continue;
    Subjects::Parameter parameter = {state.path, state.type.shape, {}};
    for (const State& other : train.states()) {
      const bool of_it = absl::StartsWith(other.path, absl::StrCat(state.path, "."));
      if (of_it && other.type.shape == state.type.shape) parameter.states.push_back(other.path);
    }
    subjects.parameters.push_back(parameter);
    for (const std::string& scope : ScopesOf(state.path, train.blocks())) scopes.insert(scope);
  }
  subjects.scopes.assign(scopes.begin(), scopes.end());
  for (const GraphInput& input : train.inputs()) {
    if (input.batch_dim == kNone) continue;
    const Value& value = train.value(input.value);
    subjects.batch_inputs.push_back({value.path, value.type.shape});
    subjects.batch = value.type.shape[0];
  }
  std::set<std::string> forward;
  for (const Op& op : train.ops()) {
    if (op.phase == Phase::kForward) {
      for (const std::string& scope : ScopesOf(op.path, train.blocks())) forward.insert(scope);
    }
    if (op.kind->name() == "linear_log_sum_exp") subjects.may_keep_logits = true;
    Subjects::Operator described = Describe(train, op);
    if (!described.signatures.empty()) subjects.operators.push_back(described);
  }
  subjects.forward_scopes.assign(forward.begin(), forward.end());
  return subjects;
}

}  // namespace tessera
