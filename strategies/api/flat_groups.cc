#include "strategies/api/flat_groups.h"

#include <map>
#include <utility>

namespace tessera::strategy {
namespace {

// Adds the parameters of `from` to `to`.
void AppendParameters(const FlatGroup& from, FlatGroup& to) {
  to.parameters.insert(to.parameters.end(), from.parameters.begin(), from.parameters.end());
  to.bytes += from.bytes;
}

// The division of parameters of one kind, in order: the group that is being filled, and the
// parameters of the scope that comes next, which stay together.
struct Division {
  FlatGroup group;
  std::string scope;
  FlatGroup scope_parameters;
};

// Adds the scope's parameters to the group, or to a new one if both have more than `max_bytes`. The
// old group is then appended to `groups`.
void EndScope(int64_t max_bytes, Division& division, std::vector<FlatGroup>& groups) {
  const bool fits =
      max_bytes > 0 && division.group.bytes + division.scope_parameters.bytes <= max_bytes;
  if (!fits && !division.group.parameters.empty()) {
    groups.push_back(std::exchange(division.group, FlatGroup()));
  }
  AppendParameters(std::exchange(division.scope_parameters, FlatGroup()), division.group);
}

}  // namespace

std::vector<FlatGroup> DivideIntoGroups(const ModelInfo& model, absl::string_view pattern,
                                        int64_t max_bytes) {
  using Kind = std::pair<bool, int>;  // trainable, dtype
  std::map<Kind, Division> divisions;
  std::map<Kind, FlatGroup> roots;
  std::vector<FlatGroup> groups;
  for (const ParameterInfo& parameter : model.parameters) {
    const Kind kind = {parameter.trainable, parameter.type.dtype()};
    const FlatGroup single = {{parameter.path}, parameter.bytes, false};
    const std::string scope =
        pattern.empty() ? model.BlockOf(parameter) : ScopeThatMatches(pattern, parameter.path);
    if (scope.empty()) {
      AppendParameters(single, roots[kind]);
      continue;
    }
    Division& division = divisions[kind];
    if (scope != division.scope) EndScope(max_bytes, division, groups);
    division.scope = scope;
    AppendParameters(single, division.scope_parameters);
  }
  for (auto& [kind, division] : divisions) {
    EndScope(max_bytes, division, groups);
    groups.push_back(std::move(division.group));
  }
  for (auto& [kind, root] : roots) {
    root.root = true;
    groups.push_back(std::move(root));
  }
  return groups;
}

}  // namespace tessera::strategy
