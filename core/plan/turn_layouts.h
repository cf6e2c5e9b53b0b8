// How the values of a Graph lie over the turns that a batch is cut into. Turns are a split in time
// instead of over devices, so the operators' layout signatures say what may be cut.
//
// Thread safety: a pure function.
#ifndef TESSERA_CORE_PLAN_TURN_LAYOUTS_H_
#define TESSERA_CORE_PLAN_TURN_LAYOUTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/layout/layout.h"

namespace tessera {

// When one op of the Graph runs.
enum class TurnStage : uint8_t {
  kBefore,  // for all turns (or once, on whole values), because a turn needs what follows from all
  kTurn,    // in every turn
  kAfter,   // once, on whole values
};

struct OpTurns {
  TurnStage stage = TurnStage::kAfter;
  // Runs once, on whole values. Otherwise once for each turn.
  bool whole = true;
  // What each turn's run reads of input i: equal to the value's own layout, or B: all of it, or S:
  // a part of a whole value. Empty if `whole`.
  std::vector<AxisLayout> inputs;
};

struct TurnLayouts {
  // Of each value. B: there is one, the whole. S: each turn has an equal part; the parts follow
  // each other along the dimension. P: each turn has a value of the whole's shape, and the whole is
  // the sum (the maximum, the log-sum-exp) of them.
  std::vector<AxisLayout> values;
  // Of each value: it is not B, and an op, an output or a state needs the whole.
  std::vector<bool> gathered;
  std::vector<OpTurns> ops;
};

// Inputs with a batch dimension are S(batch_dim), other inputs and all states B. Op by op: one
// whose inputs are all B runs once (in turns, if only turns read it and each a part); otherwise it
// runs in turns by the first of its signatures that takes what arrives and has the most split
// outputs, where a B may be cut to an S; where none does, P inputs, then S inputs are made whole,
// as few as possible.
//
// InvalidArgument if an input's batch is not divided by `turns`, if there is none with a batch
// dimension, or if a turn needs a whole value that does not follow from the step's inputs alone.
absl::StatusOr<TurnLayouts> LayOutOverTurns(const Graph& graph, int64_t turns);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_TURN_LAYOUTS_H_
