#include "strategies/api/flat_groups.h"

#include <map>
#include <utility>

namespace tessera::strategy {
namespace {

void Append(const FlatGroup& from, FlatGroup& to) {
  to.parameters.insert(to.parameters.end(), from.parameters.begin(), from.parameters.end());
  to.bytes += from.bytes;
}

// Parameters that may be stored as one array, in order: the group that is being filled, and the
// scope that comes next.
struct Filling {
  FlatGroup group;
  std::string scope;
  FlatGroup of_scope;
};

// Adds the scope to the group, or to a new one if both have more than `max_bytes`.
void EndScope(int64_t max_bytes, Filling& filling, std::vector<FlatGroup>& groups) {
  const bool joins = max_bytes > 0 && filling.group.bytes + filling.of_scope.bytes <= max_bytes;
  if (!joins && !filling.group.parameters.empty()) {
    groups.push_back(std::exchange(filling.group, FlatGroup()));
  }
  Append(std::exchange(filling.of_scope, FlatGroup()), filling.group);
}

}  // namespace

std::vector<FlatGroup> DivideIntoGroups(
    const ModelInfo& model, const std::function<std::string(const ParameterInfo&)>& scope_of,
    int64_t max_bytes) {
  using Kind = std::pair<bool, int>;  // trainable, dtype
  std::map<Kind, Filling> open;
  std::map<Kind, FlatGroup> roots;
  std::vector<FlatGroup> groups;
  for (const ParameterInfo& parameter : model.parameters) {
    const Kind kind = {parameter.trainable, parameter.type.dtype()};
    const FlatGroup single = {{parameter.path}, parameter.bytes, false};
    const std::string scope = scope_of(parameter);
    if (scope.empty()) {
      Append(single, roots[kind]);
      continue;
    }
    Filling& filling = open[kind];
    if (scope != filling.scope) EndScope(max_bytes, filling, groups);
    filling.scope = scope;
    Append(single, filling.of_scope);
  }
  for (auto& [kind, filling] : open) {
    EndScope(max_bytes, filling, groups);
    groups.push_back(std::move(filling.group));
  }
  for (auto& [kind, root] : roots) {
    root.root = true;
    groups.push_back(std::move(root));
  }
  return groups;
}

}  // namespace tessera::strategy
