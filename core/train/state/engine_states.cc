#include "core/train/state/engine_states.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace tessera {
absl::string_view RoleName(const StateInfo& state) {
  if (state.role == Role::kRunningStatistic) return kStatisticRole;
  return state.role == Role::kParameter ? kParameterRole : kOptimizerRole;
}

TensorType GlobalType(const StateInfo& state) {
  return {state.type.dtype, state.part.has_value() ? state.part->global : state.type.shape};
}

std::vector<StateEntry> EntriesOf(absl::Span<const StateInfo> states) {
  std::vector<StateEntry> entries;
  absl::flat_hash_set<absl::string_view> known;
  for (const StateInfo& state : states) {
    if (!known.insert(state.origin).second) continue;
    entries.push_back({state.origin, absl::StrCat(RoleName(state)), GlobalType(state)});
  }
  return entries;
}

StatePart PartOf(const Engine& engine, const StateInfo& state) {
  const int rank = engine.options().rank.rank;
  if (!state.part.has_value()) {
    StatePart part = FullPart(state.type.shape);
    part.saves = rank == 0;
    return part;
  }
  const Mesh& mesh = engine.run().programs.front().mesh;
  const FlatRule* const flat = state.flat.has_value() ? &*state.flat : nullptr;
  return PartOnRank(*state.part, flat, mesh, mesh.CoordinatesOf(rank));
}

}  // namespace tessera
