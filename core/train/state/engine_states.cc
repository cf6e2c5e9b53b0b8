#include "core/train/state/engine_states.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Returns the runs in which elements [first, first + count) of the part lie in the rank's buffer.
// SharedRun::first counts from element `first`, and SharedRun::second is the buffer's element.
SharedRuns RunsInBuffer(const StatePart& part, int64_t first, int64_t count) {
  return SharedRuns(part.shard.Part(first, first + count), part.buffer);
}

}  // namespace

absl::string_view RoleName(const StateInfo& state) {
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

absl::Status ReadElements(Engine& engine, const StateInfo& state, const StatePart& part,
                          int64_t first, absl::Span<char> bytes) {
  const int64_t size = SizeOf(state.type.dtype), count = static_cast<int64_t>(bytes.size()) / size;
  for (const SharedRun& run : RunsInBuffer(part, first, count)) {
    RETURN_IF_ERROR(engine.ReadState(state, run.second * size,
                                     bytes.subspan(run.first * size, run.count * size)));
  }
  return absl::OkStatus();
}

absl::Status WriteElements(Engine& engine, const StateInfo& state, const StatePart& part,
                           int64_t first, absl::Span<const char> bytes) {
  const int64_t size = SizeOf(state.type.dtype), count = static_cast<int64_t>(bytes.size()) / size;
  for (const SharedRun& run : RunsInBuffer(part, first, count)) {
    RETURN_IF_ERROR(engine.WriteState(state, run.second * size,
                                      bytes.subspan(run.first * size, run.count * size)));
  }
  return absl::OkStatus();
}

}  // namespace tessera
