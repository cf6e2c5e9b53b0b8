#include "core/program/lower/flat_storage.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<FlatStorage> FlatStorage::Create(const LayoutDecisions& decisions,
                                                absl::Span<const Graph> graphs, const Mesh& mesh) {
  FlatStorage storage;
  if (decisions.groups.empty()) return storage;
  const auto& parameter_of = decisions.subjects->parameter_of();
  absl::flat_hash_map<absl::string_view, const Shape*> shapes;  // by path of a state
  // By parameter, in order.
  absl::flat_hash_map<absl::string_view, std::vector<const std::string*>> optimizer_state;
  for (const Graph& graph : graphs) {
    for (const State& state : graph.states()) {
      if (!shapes.emplace(state.path, &state.type.shape).second) continue;
      const auto parameter = parameter_of.find(state.path);
      if (parameter == parameter_of.end()) continue;
      optimizer_state[parameter->second].push_back(&state.path);
    }
  }
  for (const StoreGroup& stored : decisions.groups) {
    Group group;
    int ranks = 1;
    const int kept_from = static_cast<int>(stored.axes.size()) - stored.gathers_kept;
    for (int i = 0; i < static_cast<int>(stored.axes.size()); ++i) {
      const int size = mesh.axis(stored.axes[i]).size;
      if (size == 1) continue;
      group.axes.push_back(stored.axes[i]);
      if (i >= kept_from) ++group.gathers_kept;
      ranks *= size;
    }
    if (ranks == 1) continue;
    std::vector<FlatGroup::Member> members;
    for (const std::string& path : stored.members) {
      const StoredLayout& layout = decisions.stored.at(path);
      const Shape local = LocalShape(layout.layout, *shapes.at(path), mesh);
      const int64_t row = local.empty() ? 1 : std::max<int64_t>(local.back(), 1);
      group.layouts.push_back(layout.layout);
      members.push_back({local, stored.block == kRow ? row : stored.block});
    }
    ASSIGN_OR_RETURN(FlatGroup created, FlatGroup::Create(members, ranks));
    group.group = std::make_shared<const FlatGroup>(std::move(created));
    const int number = storage.num_groups();
    const auto add = [&](const std::string& path, size_t member, size_t buffer) {
      if (buffer == group.buffers.size()) group.buffers.push_back(absl::StrCat(path, ".group"));
      storage.positions_[path] = {number, static_cast<int>(member), static_cast<int>(buffer)};
    };
    for (size_t member = 0; member < stored.members.size(); ++member) {
      add(stored.members[member], member, 0);
      const std::vector<const std::string*>& states = optimizer_state[stored.members[member]];
      for (size_t i = 0; i < states.size(); ++i) add(*states[i], member, i + 1);
    }
    storage.groups_.push_back(std::move(group));
  }
  return storage;
}

const FlatPosition* FlatStorage::Find(const std::string& state) const {
  const auto found = positions_.find(state);
  return found == positions_.end() ? nullptr : &found->second;
}

}  // namespace tessera
