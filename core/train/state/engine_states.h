// The states of an engine, as checkpoints name them, and the parts that its rank holds.
//
// Thread safety: functions without state, apart from the engine's.
#ifndef TESSERA_CORE_TRAIN_STATE_ENGINE_STATES_H_
#define TESSERA_CORE_TRAIN_STATE_ENGINE_STATES_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/runtime/engine.h"
#include "core/tensor/shape.h"
#include "core/train/checkpoint/state_entry.h"
#include "core/train/state/state_part.h"

namespace tessera {

// Returns a role of state_entry.h.
absl::string_view RoleName(const StateInfo& state);

// Returns the type of the global tensor, whatever the layout. Slices of one state have the state's.
TensorType GlobalType(const StateInfo& state);

// Returns the states of a run as a checkpoint lists them: each origin once, as slices of one state
// share its entry.
std::vector<StateEntry> EntriesOf(absl::Span<const StateInfo> states);

// Returns the part of a state that the engine's rank holds.
StatePart PartOf(const Engine& engine, const StateInfo& state);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_STATE_ENGINE_STATES_H_
