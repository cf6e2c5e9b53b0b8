#include "strategies/fsdp/units.h"

#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace tessera::strategy {
namespace {

// Returns whether `text` matches a pattern in which "*" stands for any characters.
bool Matches(absl::string_view pattern, absl::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    for (size_t skipped = 0; skipped <= text.size(); ++skipped) {
      if (Matches(pattern.substr(1), text.substr(skipped))) return true;
    }
    return false;
  }
  return !text.empty() && text[0] == pattern[0] && Matches(pattern.substr(1), text.substr(1));
}

// Returns the scope of a parameter under the policy; "" for the root unit.
std::string ScopeOf(const ParameterInfo& parameter, const ModelInfo& model,
                    const UnitPolicy& policy) {
  if (policy.kind == UnitPolicy::Kind::kPattern) {
    return ScopeThatMatches(policy.pattern, parameter.path);
  }
  return parameter.block < 0 ? "" : model.blocks[parameter.block];
}

void Append(const Unit& from, Unit& to) {
  to.parameters.insert(to.parameters.end(), from.parameters.begin(), from.parameters.end());
  to.bytes += from.bytes;
}

// Parameters that may be stored as one array, in order: the unit that is being filled, and the
// scope that comes next.
struct Filling {
  Unit unit;
  std::string scope;
  Unit of_scope;
};

// Adds the scope to the unit, or to a new one if they do not belong together.
void EndScope(const UnitPolicy& policy, Filling& filling, std::vector<Unit>& units) {
  const bool joins = policy.kind == UnitPolicy::Kind::kSize &&
                     filling.unit.bytes + filling.of_scope.bytes <= policy.max_bytes;
  if (!joins && !filling.unit.parameters.empty()) {
    units.push_back(std::exchange(filling.unit, Unit()));
  }
  Append(std::exchange(filling.of_scope, Unit()), filling.unit);
}

}  // namespace

std::string ScopeThatMatches(const std::string& pattern, const std::string& path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '.');
  for (const absl::string_view alternative : absl::StrSplit(pattern, '|')) {
    const std::vector<absl::string_view> wanted = absl::StrSplit(alternative, '.');
    if (wanted.size() > parts.size()) continue;
    bool fits = true;
    for (size_t i = 0; i < wanted.size(); ++i) fits = fits && Matches(wanted[i], parts[i]);
    if (fits) return absl::StrJoin(parts.begin(), parts.begin() + wanted.size(), ".");
  }
  return "";
}

absl::StatusOr<std::vector<Unit>> DivideIntoUnits(const ModelInfo& model,
                                                  const UnitPolicy& policy) {
  using Kind = std::tuple<bool, int>;  // trainable, dtype
  std::map<Kind, Filling> open;
  std::map<Kind, Unit> roots;
  std::vector<Unit> units;
  for (const ParameterInfo& parameter : model.parameters) {
    const Kind kind = {parameter.trainable, parameter.type.dtype()};
    const Unit single = {{parameter.path}, parameter.bytes, false};
    const std::string scope = ScopeOf(parameter, model, policy);
    if (scope.empty()) {
      Append(single, roots[kind]);
      continue;
    }
    Filling& filling = open[kind];
    if (scope != filling.scope) EndScope(policy, filling, units);
    filling.scope = scope;
    Append(single, filling.of_scope);
  }
  for (auto& [kind, filling] : open) {
    EndScope(policy, filling, units);
    units.push_back(std::move(filling.unit));
  }
  if (units.empty() && policy.kind == UnitPolicy::Kind::kPattern) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pattern '", policy.pattern, "' matches no scope of the model's parameters, such as '",
        model.parameters.empty() ? "" : model.parameters.front().path, "'"));
  }
  for (auto& [kind, root] : roots) {
    root.root = true;
    units.push_back(std::move(root));
  }
  return units;
}

}  // namespace tessera::strategy
